// JSON objects byte for byte, and the events built from them.

import Testing

@testable import Core

@Suite struct JSONObjectTests {
    @Test func membersStandInTheOrderOfTheCalls() {
        var object = JSONObject()
        object.add("text", "a")
        object.add("number", 12)
        object.add("below", -7)
        object.add("least", Int64.min)
        object.add("most", UInt64.max)
        object.add("yes", true)
        object.add("no", false)
        object.add("list", json: "[1,2]")
        #expect(
            object.finished()
                == "{\"text\":\"a\",\"number\":12,\"below\":-7,\"least\":-9223372036854775808,"
                + "\"most\":18446744073709551615,\"yes\":true,\"no\":false,\"list\":[1,2]}")
        #expect(JSONObject().finished() == "{}")
    }

    /// RFC 8259, section 7.
    @Test(arguments: [
        ("", ""), ("a\"b", "a\\\"b"), ("\\", "\\\\"), ("\n\r\t", "\\n\\r\\t"), ("\"\"", "\\\"\\\""),
        ("\u{0}a\u{1F}b\u{7F}", "\\u0000a\\u001fb\\u007f"), ("\u{8}\u{10}", "\\b\\u0010"),
        ("aus – Ende 🙂\u{80}", "aus – Ende 🙂\\u0080"), ("a/b", "a/b"),
    ])
    func textIsEscaped(_ text: String, _ written: String) {
        var object = JSONObject()
        object.add("key", text)
        #expect(object.finished() == "{\"key\":\"\(written)\"}")
    }

    @Test func longTextIsWrittenWhole() {
        let part = String(repeating: "0123456789", count: 100)
        var object = JSONObject()
        object.add("key", part + "\n" + part)
        #expect(object.finished() == "{\"key\":\"\(part)\\n\(part)\"}")
    }

    /// Events without a subscriber are replayed later.
    @Test(arguments: DeliveryTests.placements)
    func eventsAreThereForWhoComesLater(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = TestBroker(shards: shards)
        let client = broker.connect(from)
        client.subscribe("t?overflow=drop-newest", n: 3, stream: 1)
        for text in ["a", "b"] { client.fireAndForget("t", text) }
        client.cancel(stream: 1)
        let watcher = broker.connect(at)
        watcher.subscribe("$SYS.events?replay=all", stream: 1)
        let reported = watcher.received().filter { $0.contains("\"topic\":\"t\"") }
        func event(_ name: String) -> String? {
            reported.first { $0.hasPrefix("1:{\"event\":\"\(name)\",\"time_ns\":\(broker.now.wall),") }
        }
        let connection = "\"connection\":\"\(from)-\(client.id.index)-\(client.id.generation)\""
        let subscribed = try #require(event("subscribed"), "\(reported)")
        #expect(
            subscribed.hasSuffix(
                "\"topic\":\"t\",\(connection),\"policy\":\"drop-newest\",\"delivered\":0,\"dropped\":0}"))
        let unsubscribed = try #require(event("unsubscribed"), "\(reported)")
        #expect(unsubscribed.hasSuffix("\"delivered\":2,\"dropped\":0,\"reason\":\"cancelled by the client\"}"))
        #expect(event("topic-created") != nil && reported.count == 3, "\(reported)")
    }
}
