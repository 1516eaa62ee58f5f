// ResponseTests: what a gRPC subscriber of the generator sends, and how it reads a server's frames.

import Testing

@testable import Bench

struct GRPCWireTests {
    private let wire = GRPCWire(publishers: BareWire())

    /// Type, flags, stream and payload of each frame.
    private func frames(_ bytes: [UInt8]) -> [(type: UInt8, flags: UInt8, stream: Int, payload: [UInt8])] {
        var frames: [(type: UInt8, flags: UInt8, stream: Int, payload: [UInt8])] = []
        var rest = bytes[...]
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            let length = CreditReader.number(head, at: 0, bytes: 3)
            let stream = CreditReader.number(head, at: 5, bytes: 4)
            frames.append((head[3], head[4], stream, Array(rest.dropFirst(9).prefix(length))))
            rest = rest.dropFirst(9 + length)
        }
        #expect(rest.isEmpty)
        return frames
    }

    @Test func aSubscriberOpensAConnectionAndACall() throws {
        let bytes = try wire.subscriber(Subscription()).bytes
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        #expect(bytes.starts(with: Array(preface.utf8)))
        let frames = frames(Array(bytes.dropFirst(preface.utf8.count)))
        // SETTINGS, WINDOW_UPDATE, HEADERS with END_HEADERS, DATA.
        #expect(frames.map(\.type) == [4, 8, 1, 0])
        #expect(frames.map(\.flags) == [0, 0, 4, 0])
        #expect(frames.map(\.stream) == [0, 0, 1, 1])
        // SETTINGS_INITIAL_WINDOW_SIZE, and the connection's window raised to the same size.
        #expect(frames[0].payload == [0, 4, 0, 0x80, 0, 0])
        #expect(frames[1].payload == [0, 0x7f, 0, 1])
        // Open: topic, request_n 2³¹−1, overflow BLOCK, buffer 1,000,000, as SubscribeRequest.open in one message.
        let credit: [UInt8] = [16, 0xff, 0xff, 0xff, 0xff, 7]
        let open: [UInt8] = [10, 6] + Array("bench0".utf8) + credit + [64, 5, 56, 0xc0, 0x84, 0x3d]
        #expect(frames[3].payload == [0, 0, 0, 0, 22, 10, 20] + open)
    }

    @Test func demandAndOptionsAreThoseOfTheSubscription() throws {
        let bytes = try wire.subscriber(Subscription(topic: 3, window: 256, options: "")).bytes
        let message: [UInt8] = [10, 11, 10, 6] + Array("bench3".utf8) + [16, 0x80, 2]
        #expect(Array(bytes.suffix(18)) == [0, 0, 0, 0, 13] + message)
        #expect(wire.refill(Subscription(), 128) == [0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 3, 16, 0x80, 1])
        #expect(throws: BenchError.self) { try wire.subscriber(Subscription(options: "replay=all")) }
    }
}

struct ResponseReaderTests {
    private static let payload = 16
    private static let text = [UInt8](repeating: UInt8(ascii: "x"), count: payload)

    private static func field(_ number: UInt8, _ bytes: [UInt8]) -> [UInt8] {
        [number << 3 | 2] + GRPCWire.varint(UInt64(bytes.count)) + bytes
    }

    private static func message(_ sequence: UInt64, _ payload: [UInt8] = text) -> [UInt8] {
        let timestamp = GRPCWire.varint(1_700_000_000_000_000_000)
        return field(1, [8] + GRPCWire.varint(sequence) + field(2, payload) + [24] + timestamp)
    }

    /// A response after its prefix.
    private static func response(_ messages: [[UInt8]]) -> [UInt8] {
        let body = messages.flatMap { $0 } + [16] + GRPCWire.varint(0x7fff_ffff) + [24] + GRPCWire.varint(.max)
        return [0, 0, 0, UInt8(body.count >> 8), UInt8(body.count & 0xff)] + body
    }

    private static func read(
        _ bytes: [UInt8], cut: Int, comparing: Bool
    ) throws -> (count: Int, replies: [UInt8]) {
        var reader = ResponseReader(payload: payload)
        var count = 0
        for start in stride(from: 0, to: bytes.count, by: cut) {
            count += try bytes[start..<min(start + cut, bytes.count)].withUnsafeBytes {
                try reader.take($0, comparing: comparing)
            }
        }
        return (count, reader.replies)
    }

    /// A server's first frames, and six messages in three responses that are spread over four DATA frames.
    private static var stream: [UInt8] {
        let data =
            response([]) + response([message(1)]) + response([message(2), message(200), message(70_000)])
            + response([message(1 << 40), message(.max)])
        let frames = stride(from: 0, to: data.count, by: data.count / 4 + 1).map {
            GRPCWire.frame(type: 0, stream: 1, Array(data[$0..<min($0 + data.count / 4 + 1, data.count)]))
        }
        let opening =
            GRPCWire.frame(type: 4, stream: 0, [0, 3, 0, 0, 0, 100]) + GRPCWire.frame(type: 4, flags: 1, stream: 0, [])
        return opening + GRPCWire.frame(type: 1, flags: 4, stream: 1, [0x88]) + frames[0] + frames[1]
            + GRPCWire.frame(type: 6, stream: 0, Array("pingpong".utf8)) + GRPCWire.frame(type: 0, stream: 1, [])
            + frames[2] + GRPCWire.windowUpdate(stream: 0, 5) + frames[3]
    }

    @Test func everyCutCountsEveryMessage() throws {
        let bytes = ResponseReaderTests.stream
        // SETTINGS and PING are acknowledged, acknowledgements are not.
        let replies =
            GRPCWire.frame(type: 4, flags: 1, stream: 0, [])
            + GRPCWire.frame(type: 6, flags: 1, stream: 0, Array("pingpong".utf8))
        for cut in 1...bytes.count {
            for comparing in [false, true] {
                let result = try ResponseReaderTests.read(bytes, cut: cut, comparing: comparing)
                #expect(result.count == 6)
                #expect(result.replies == replies)
            }
        }
    }

    @Test func aMessageCountsWhenAllOfItHasCome() throws {
        let whole = GRPCWire.frame(
            type: 0, stream: 1, ResponseReaderTests.response([ResponseReaderTests.message(1)]))
        // The other fields of the response follow the message.
        let end = whole.count - 1 - GRPCWire.varint(0x7fff_ffff).count - 1 - GRPCWire.varint(.max).count
        for count in 0...whole.count {
            let result = try ResponseReaderTests.read(Array(whole.prefix(count)), cut: 7, comparing: false)
            #expect(result.count == (count >= end ? 1 : 0))
        }
    }

    @Test func otherPayloadsAreToldWhenCompared() throws {
        var wrong = ResponseReaderTests.text
        wrong[9] = 0
        let bytes = { (payload: [UInt8]) in
            GRPCWire.frame(
                type: 0, stream: 1, ResponseReaderTests.response([ResponseReaderTests.message(3, payload)]))
        }
        #expect(try ResponseReaderTests.read(bytes(wrong), cut: 5, comparing: false).count == 1)
        #expect(throws: BenchError.self) { try ResponseReaderTests.read(bytes(wrong), cut: 5, comparing: true) }
        #expect(throws: BenchError.self) { try ResponseReaderTests.read(bytes([120]), cut: 5, comparing: true) }
        // The opening of a publisher's channel.
        let zeros = [UInt8](repeating: 0, count: ResponseReaderTests.payload)
        #expect(try ResponseReaderTests.read(bytes(zeros), cut: 5, comparing: true).count == 1)
    }

    @Test func bytesAreAcknowledgedByHalvesOfTheWindow() throws {
        // Fields that have no meaning here, in frames of 16 KiB.
        let half = GRPCWire.window / 2
        let frame = 16 << 10
        var reader = ResponseReader(payload: ResponseReaderTests.payload)
        let length = half - 5 - 5
        let size = (0..<4).map { UInt8(truncatingIfNeeded: (half - 5) >> (24 - 8 * $0)) }
        var content: [UInt8] = [0] + size + [7 << 3 | 2] + GRPCWire.varint(UInt64(length))
        content += [UInt8](repeating: 1, count: half - content.count)
        for start in stride(from: 0, to: half, by: frame) {
            #expect(reader.replies.isEmpty)
            let bytes = GRPCWire.frame(type: 0, stream: 1, Array(content[start..<(start + frame)]))
            #expect(try bytes.withUnsafeBytes { try reader.take($0) } == 0)
        }
        #expect(reader.replies == GRPCWire.windowUpdate(stream: 0, half) + GRPCWire.windowUpdate(stream: 1, half))
        reader.clearReplies()
        #expect(reader.replies.isEmpty)
    }

    @Test(arguments: [
        // Trailers, RST_STREAM, GOAWAY, DATA with END_STREAM, a compressed response, a field of 32 bits, a long frame.
        GRPCWire.frame(type: 1, flags: 5, stream: 1, [0x88]), GRPCWire.frame(type: 3, stream: 1, [0, 0, 0, 8]),
        GRPCWire.frame(type: 7, stream: 0, [UInt8](repeating: 0, count: 8)),
        GRPCWire.frame(type: 0, flags: 1, stream: 1, []), GRPCWire.frame(type: 0, stream: 1, [1, 0, 0, 0, 0]),
        GRPCWire.frame(type: 0, stream: 1, [0, 0, 0, 0, 5, 13, 0, 0, 0, 0]), [0x10, 0, 0, 4, 0, 0, 0, 0, 0],
        // A field that is longer than its response.
        GRPCWire.frame(type: 0, stream: 1, [0, 0, 0, 0, 3, 10, 9, 0]),
    ])
    func whatEndsACallIsTold(_ bytes: [UInt8]) {
        #expect(throws: BenchError.self) { try ResponseReaderTests.read(bytes, cut: bytes.count, comparing: false) }
    }

    @Test func h2loadMustSucceedInEverything() throws {
        let text = "finished in 1.00s\nrequests: 12 total, 12 started, 9 done, 9 succeeded, 0 failed, 0 errored\n"
        #expect(try Bench.succeeded(text) == 9)
        let wrongs = ["", "requests: 9 total, 9 done, 8 succeeded, 1 failed", "requests: 0 total, 0 done, 0 succeeded"]
        for wrong in wrongs {
            #expect(throws: BenchError.self) { try Bench.succeeded(wrong) }
        }
    }
}
