// What several tests of the client share: scripted frames of a broker, and events as values that can be compared.

import Bytes
import ForebayWire
import RSocket
import Testing

@testable import Client

/// A fresh byte buffer's content as an array.
func bytes(_ body: (inout ByteBuffer) -> Void) -> [UInt8] {
    var buffer = ByteBuffer()
    body(&buffer)
    return Array(buffer.readable)
}

func hex(_ text: String) -> [UInt8] {
    let digits = text.filter { !$0.isWhitespace }
    return stride(from: 0, to: digits.count, by: 2).map { place in
        let start = digits.index(digits.startIndex, offsetBy: place)
        return UInt8(digits[start..<digits.index(start, offsetBy: 2)], radix: 16)!
    }
}

/// An event without pointers.
enum Seen: Equatable {
    case message(UInt32, metadata: [UInt8]?, String)
    case opened(UInt32, epoch: UInt64, next: UInt64)
    case acknowledged(UInt32, UInt64)
    case completed(UInt32, dropped: UInt64)
    case topicEnded(UInt32, EndNotice)
    case failed(UInt32, ClientError)
    case granted(UInt32, UInt32)
    case declined(UInt32)
    case pong([UInt8])
    case closing(String)
    /// What `next` threw.
    case died(ClientError)

    init(_ event: ClientEvent) {
        switch event {
        case .message(let id, let message):
            self = .message(
                id.value, metadata: message.metadata.map { Array($0) }, String(decoding: message.data, as: UTF8.self))
        case .opened(let id, let position):
            self = .opened(id.value, epoch: position.epoch, next: position.next)
        case .topicEnded(let id, let end): self = .topicEnded(id.value, end)
        case .acknowledged(let id, let reported): self = .acknowledged(id.value, reported.sequence)
        case .completed(let id, let dropped, _): self = .completed(id.value, dropped: dropped)
        case .failed(let id, let error): self = .failed(id.value, error)
        case .granted(let id, let n): self = .granted(id.value, n)
        case .declined(let id): self = .declined(id.value)
        case .pong(let data): self = .pong(Array(data))
        case .closing(let why): self = .closing(why)
        }
    }
}

extension RSocketRequester {
    /// Feeds `input` in pieces of `step` bytes and returns all events.
    mutating func feed(_ input: [UInt8], step: Int = .max) -> [Seen] {
        var seen: [Seen] = []
        var place = 0
        repeat {
            let end = step < input.count - place ? place + step : input.count
            self.input.append(Array(input[place..<end]))
            place = end
            do {
                while let event = try next() { seen.append(Seen(event)) }
            } catch {
                seen.append(.died(error))
                return seen
            }
        } while place < input.count
        return seen
    }

    /// Pending output, which is removed.
    mutating func takeOutput() -> [UInt8] {
        let bytes = Array(output.readable)
        output.consume(bytes.count)
        return bytes
    }
}

func payload(
    _ id: UInt32, _ text: String, next: Bool = true, complete: Bool = false, metadata: [UInt8]? = nil, fragment: Int = 0
) -> [UInt8] {
    bytes { out in
        var text = text
        text.withUTF8 { data in
            func write(_ metadata: UnsafeRawBufferPointer?) {
                FrameWriter.payload(
                    stream: id, next: next, complete: complete, metadata: metadata, data: UnsafeRawBufferPointer(data),
                    fragment: fragment, into: &out)
            }
            if let metadata { metadata.withUnsafeBytes { write($0) } } else { write(nil) }
        }
    }
}

func error(_ id: UInt32, _ code: UInt32, _ text: String) -> [UInt8] {
    bytes { FrameWriter.error(stream: id, code: code, message: text, into: &$0) }
}

func requestN(_ id: UInt32, _ n: UInt32) -> [UInt8] {
    bytes { FrameWriter.requestN(stream: id, n: n, into: &$0) }
}

func cancel(_ id: UInt32) -> [UInt8] { bytes { FrameWriter.cancel(stream: id, into: &$0) } }

var none: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

/// `#expect(a == b)` for values returned by a connection: the macro would copy the connection, which is not copyable.
func same<T: Equatable>(_ a: T, _ b: T, _ comment: String = "", sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(a == b, "\(comment)", sourceLocation: sourceLocation)
}

/// Random numbers that are the same in every run (xorshift).
struct Numbers: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed | 1 }

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }
}
