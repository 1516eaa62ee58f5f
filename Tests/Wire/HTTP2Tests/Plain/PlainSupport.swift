// What the plain HTTP tests share: requests on one line, records as text, and reproducible random numbers.

import Bytes
import Foundation
import Testing

@testable import HTTP2

/// A small generator that produces the same numbers in every run.
struct PlainRandom: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}

func request(_ method: String, _ target: String, _ headers: [(String, String)] = []) -> PlainRequest {
    var request = PlainRequest(method: method, target: target)
    for (name, value) in headers { request.add(name, value) }
    return request
}

/// The refusal of a request; nil if it is accepted.
func refusal(_ request: PlainRequest, by plain: PlainProtocol = PlainProtocol()) -> Problem? {
    do throws(Problem) {
        _ = try plain.call(request)
        return nil
    } catch {
        return error
    }
}

func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

struct Sample {
    var epoch: UInt64 = 66
    var sequence: UInt64 = 42
    var timestamp: Int64 = 1_700_000_000_000_000_001
    var dropped: UInt64 = 0
    var restarts = false
    var metadata: [UInt8] = []
    var payload: [UInt8] = []

    init(_ payload: [UInt8]) { self.payload = payload }
    init(_ payload: String) { self.payload = Array(payload.utf8) }

    /// The record written into memory of the measured size; nil if more or less of it was written.
    func record(_ format: StreamFormat) -> [UInt8]? {
        metadata.withUnsafeBytes { metadata in
            payload.withUnsafeBytes { payload in
                var message = StreamedMessage(
                    epoch: epoch, sequence: sequence, timestamp: timestamp, dropped: dropped, metadata: metadata,
                    payload: payload)
                message.restarts = restarts
                let record = StreamRecord(message, as: format)
                // Written twice, over different initial contents: a byte that was not written differs.
                var copies: [[UInt8]] = []
                for ground: UInt8 in [0x00, 0xFF] {
                    var bytes = [UInt8](repeating: ground, count: record.size + 32)
                    bytes.withUnsafeMutableBytes { record.write(to: $0.baseAddress! + 16) }
                    guard bytes.prefix(16).allSatisfy({ $0 == ground }), bytes.suffix(16).allSatisfy({ $0 == ground })
                    else { return nil }
                    copies.append(Array(bytes.dropFirst(16).dropLast(16)))
                }
                return copies[0] == copies[1] ? copies[0] : nil
            }
        }
    }
}

/// A provocative payload: text with line ends, quotation marks and characters of every length, sometimes damaged.
func nastyPayload(_ random: inout PlainRandom) -> [UInt8] {
    let pieces: [[UInt8]] = [
        "a", "plain text of some length, ", "\n", "\n\n", "\r\n", "\r", "\"", "\\", "\u{0}", "\u{1b}", "\t", "\u{7f}",
        " ",
        ": ", "data: x\n\n", "\u{85}", "\u{2028}", "\u{2029}", "\u{feff}", "é", "€", "😀", "\u{10ffff}", "\u{800}",
        "id: 1-1\n", "{\"a\":[1,2]}",
    ].map { Array($0.utf8) }
    var bytes: [UInt8] = []
    // Most without a carriage return, so that most are sent as text.
    let choices = random.next() % 4 == 0 ? pieces : pieces.filter { !$0.contains(0x0D) }
    for _ in 0..<Int.random(in: 0...12, using: &random) { bytes += choices.randomElement(using: &random)! }
    if random.next() % 8 == 0, !bytes.isEmpty {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
    }
    if random.next() % 16 == 0, !bytes.isEmpty { bytes.removeLast() }
    return bytes
}

func json(_ bytes: [UInt8]) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
}

/// Appends a content type as encoded in a publisher's request.
func append(contentType: String, into out: inout ByteBuffer) {
    PublishCall(topic: "t", contentType: contentType, headers: []).appendMetadata(into: &out)
}

/// Appends headers as encoded in a publisher's request.
func append(headers: [PlainHeader], into out: inout ByteBuffer) {
    PublishCall(topic: "t", contentType: nil, headers: headers).appendMetadata(into: &out)
}
