// JSON lines: the bytes written, and that an independent JSON parser reads from them what was published.

import Bytes
import ForebayWire
import Foundation
import Testing

@testable import HTTP2

struct JSONLinesTests {
    private static let head = "{\"sequence\":42,\"epoch\":\"66\",\"timestamp\":\"1700000000000000001\","

    @Test(arguments: [
        ("4.1 C", "4.1 C"), ("", ""), ("\"\\/", "\\\"\\\\/"), ("a\nb\r\n\t\u{8}\u{c}", "a\\nb\\r\\n\\t\\b\\f"),
        ("\u{0}\u{1f}\u{7f}", "\\u0000\\u001f\\u007f"), ("é€😀\u{feff}", "é€😀\\ufeff"),
        ("\u{85}\u{2028}\u{2029}\u{2027}\u{202a}", "\\u0085\\u2028\\u2029\u{2027}\\u202a"),
        ("12345678\"2345678\\23456789", "12345678\\\"2345678\\\\23456789"),
    ])
    func messagesAreWritten(payload: String, escaped: String) throws {
        let bytes = try #require(Sample(payload).record(.jsonLines))
        #expect(bytes == Array((JSONLinesTests.head + "\"payload\":\"\(escaped)\"}\n").utf8))
    }

    @Test(
        arguments: [
            ([0xFF], "/w=="), ([0xC0, 0x80], "wIA="), ([0xED, 0xA0, 0x80], "7aCA"), ([0x61, 0xE2, 0x82], "YeKC"),
        ] as [([UInt8], String)])
    func whatIsNotUTF8IsWrittenInBase64(payload: [UInt8], encoded: String) throws {
        let bytes = try #require(Sample(payload).record(.jsonLines))
        #expect(text(bytes) == JSONLinesTests.head + "\"payload_base64\":\"\(encoded)\"}\n")
    }

    @Test func whatIsToldOfAMessageIsWritten() throws {
        var sample = Sample("x")
        sample.timestamp = -1
        sample.dropped = 3
        sample.restarts = true
        sample.metadata = written {
            PublishCall(
                topic: "t", contentType: "text/plain", headers: [PlainHeader("unit", "\"C\""), PlainHeader("é", "")]
            ).appendMetadata(into: &$0)
        }
        #expect(
            text(try #require(sample.record(.jsonLines)))
                == "{\"sequence\":42,\"epoch\":\"66\",\"timestamp\":\"-1\",\"dropped\":3,\"restarted\":true,"
                + "\"payload\":\"x\",\"content_type\":\"text/plain\",\"headers\":{\"unit\":\"\\\"C\\\"\",\"é\":\"\"}}\n"
        )
    }

    @Test(arguments: 0..<8)
    func anotherReaderGivesPayloadsBack(round: Int) throws {
        var random = PlainRandom(UInt64(100 + round))
        var kinds: Set<String> = []
        for _ in 0..<300 {
            var sample = Sample(nastyPayload(&random))
            sample.sequence = random.next() >> 12
            sample.epoch = random.next()
            sample.timestamp = Int64(bitPattern: random.next())
            let header = nastyPayload(&random)
            if random.next() % 4 == 0 {
                let value = String(decoding: header, as: UTF8.self)
                sample.metadata = written { append(headers: [PlainHeader("h", value)], into: &$0) }
            }
            let bytes = try #require(sample.record(.jsonLines))
            // A single line for every parser: no control characters, and no Unicode line separators.
            #expect(bytes.last == 0x0A && !bytes.dropLast().contains { $0 < 0x20 })
            #expect(!text(bytes).unicodeScalars.contains { [0x85, 0x2028, 0x2029].contains($0.value) })
            let object = try json(bytes)
            if let payload = object["payload"] as? String {
                #expect(Array(payload.utf8) == sample.payload)
                kinds.insert("text")
            } else {
                let payload = try #require(object["payload_base64"] as? String)
                #expect(Data(base64Encoded: payload) == Data(sample.payload))
                #expect(String(validating: sample.payload, as: UTF8.self) == nil)
                kinds.insert("base64")
            }
            #expect((object["sequence"] as? NSNumber)?.uint64Value == sample.sequence)
            #expect(object["epoch"] as? String == String(sample.epoch))
            #expect(object["timestamp"] as? String == String(sample.timestamp))
            let headers = object["headers"] as? [String: String]
            #expect(
                headers?["h"].map { Array($0.utf8) }
                    == (sample.metadata.isEmpty ? nil : Array(String(decoding: header, as: UTF8.self).utf8)))
        }
        #expect(kinds == ["text", "base64"])
    }

    @Test func endsAreLines() throws {
        let last = EventID(epoch: 66, sequence: 42)
        let stream = written {
            StreamFormat.jsonLines.appendOpening(SubscriptionID(high: 0, low: 0), into: &$0)
            let hasHeartbeat = StreamFormat.jsonLines.appendHeartbeat(into: &$0)
            #expect(!hasHeartbeat)
            StreamFormat.jsonLines.appendDraining(into: &$0)
            StreamFormat.jsonLines.appendComplete(after: last, StreamLoss(dropped: 2), into: &$0)
            StreamFormat.jsonLines.appendFailed(
                after: last, message: "overflow: \u{2028}", StreamLoss(restarts: true), into: &$0)
            StreamFormat.jsonLines.append(
                EndNotice(topic: "t.eu", epoch: 66, failure: nil, dropped: 0, restarts: false), into: &$0)
        }
        #expect(
            text(stream) == """
                {"end":"draining"}
                {"end":"complete","dropped":2}
                {"end":"failed","message":"overflow: \\u2028","dropped":0,"restarted":true}
                {"topic_end":"t.eu","epoch":"66","dropped":0}

                """)
    }
}
