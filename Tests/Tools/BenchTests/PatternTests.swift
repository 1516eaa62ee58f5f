// PatternTests: what subscribers of patterns are sent in each protocol, and how gaps in it are found.

import Testing

@testable import Bench

struct PatternTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test func patternsAreAskedForInEachProtocol() throws {
        let nats = PatternWire(.nats, topics: 2, .pattern)
        #expect(text(try nats.subscriber(Subscription()).bytes).hasSuffix("}\r\nSUB p.> 1\r\n"))
        #expect(text(nats.published(topic: 7, payload: 2).bytes) == "PUB p.10007 2\r\nxx\r\n")
        #expect(text(nats.delivered(to: Subscription(), payload: 2).bytes) == "MSG p.10000 1 2\r\nxx\r\n")
        let redis = PatternWire(.redis, topics: 2, .pattern)
        #expect(try redis.subscriber(Subscription()).bytes == RedisWire.command(["PSUBSCRIBE", "p.*"]))
        let delivered = "*4\r\n$8\r\npmessage\r\n$3\r\np.*\r\n$7\r\np.10000\r\n$2\r\nxx\r\n"
        let frame = redis.delivered(to: Subscription(), payload: 2)
        #expect(text(frame.bytes) == delivered)
        #expect(frame.varying.map { text(Array(frame.head[$0])) } == ["10000"])
        #expect(nats.reader(payload: 8) == nil && redis.refill(Subscription(), 1) == nil)
    }

    @Test func topicsAreAskedForOneByOne() throws {
        let wire = PatternWire(.forebay, topics: 2, .topics)
        let bytes = text(try wire.subscriber(Subscription(options: "buffer=9")).bytes)
        #expect(bytes.contains("p.10000?buffer=9") && bytes.contains("p.10001?buffer=9"))
        #expect(!bytes.contains("p.>"))
        let meta = PatternWire(.forebay, topics: 1, .topicsMeta)
        #expect(text(try meta.subscriber(Subscription(options: "buffer=9")).bytes).contains("p.10000?buffer=9&meta=on"))
        let sizes = [Interest.topics, .topicsMeta, .pattern].map {
            PatternWire(.forebay, topics: 1, $0).delivered(to: Subscription(), payload: 8).size
        }
        // A frame; with metadata an entry of 32 bytes; of a pattern, the topic's entry too.
        #expect(sizes == [9 + 8, 9 + 3 + 32 + 31 + 4 + 8, 9 + 3 + 32 + 31 + 4 + 29 + 4 + 7 + 8])
    }

    @Test func aReaderFollowsEachTopic() throws {
        let frame = RSocketWire.described(payload: 8, topic: PatternWire.topic(0))
        func message(_ topic: Int, _ sequence: UInt8, dropped: UInt8 = 0) -> [UInt8] {
            var bytes = frame.bytes
            let figures = RSocketWire.figures(in: frame).lowerBound
            bytes[figures + 15] = sequence
            bytes[figures + 31] = dropped
            bytes[frame.head.count - 1] = UInt8(ascii: "0") + UInt8(topic)
            bytes.replaceSubrange(frame.head.count..<(frame.head.count + 7), with: [UInt8](repeating: 0, count: 7))
            bytes[frame.size - 1] = UInt8(topic) * 10 + sequence
            return bytes
        }
        var reader = PatternReader(frame, topics: 2, ignoring: 0..<1)
        var stamps: [UInt64] = []
        func take(_ bytes: [UInt8]) throws -> Int {
            try bytes.withUnsafeBytes { try reader.take($0, comparing: false) { stamps.append($0) } }
        }
        let bytes = message(0, 1) + message(1, 1) + message(0, 2) + message(1, 5, dropped: 3)
        #expect(try take(Array(bytes[..<50])) == 0)
        #expect(try take(Array(bytes[50...])) == 4)
        #expect(stamps == [11, 15] && reader.dropped == 3)
        #expect(throws: BenchError.self) { try take(message(1, 7)) }
    }
}
