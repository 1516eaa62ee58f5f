// PatternAccessTests: who may subscribe to a pattern, list such a subscription, and end it.

import RSocket
import Testing

@testable import Core

@Suite struct PatternAccessTests {
    @Test func aPatternLiesWithinWhatTheUserMaySubscribeTo() {
        let table = AccessTable.users([
            "alice": Permissions(subscribe: topics("orders.>", "*.eu")), "root": .all,
            "sys": Permissions(subscribe: topics(">"), control: topics("$SYS.>")),
        ])
        let broker = TestBroker(access: table)
        func outcomes(_ user: String, _ patterns: [String]) -> [Bool] {
            let client = broker.logIn(user, of: table)
            return patterns.enumerated().map { index, pattern in
                client.subscribe(pattern, stream: UInt32(2 * index + 11))
                return !client.received().contains {
                    $0.contains("forbidden") && $0.contains("every topic that '\(pattern)' matches")
                }
            }
        }
        let patterns = ["orders.*", "orders.>", "orders.*.eu", "*.eu", "*.us", ">", "$SYS.*"]
        #expect(outcomes("alice", patterns) == [true, true, true, true, false, false, false])
        #expect(outcomes("root", patterns) == patterns.map { _ in true })
        #expect(outcomes("sys", [">", "$SYS.>", "*"]) == [true, true, true])
    }

    @Test(arguments: [1, 2]) func aSubscriptionEndsWhenItsPatternIsNoLongerAllowed(_ shards: Int) {
        let before = AccessTable.users(["alice": .all])
        let broker = TestBroker(shards: shards, access: before)
        let client = broker.logIn("alice", of: before)
        client.subscribe("orders.*", stream: 11)
        client.subscribe("prices.*", stream: 13)
        client.publish("prices.gold", "1", stream: 15)
        _ = client.received()
        broker.reload(
            AccessTable.users(["alice": Permissions(publish: topics(">"), subscribe: topics("prices.>"))]))
        let lines = client.received()
        #expect(lines.count == 1 && lines[0].hasPrefix("11:! 202 forbidden: User 'alice' may not subscribe to every"))
        client.publish("orders.eu", "1", stream: 17)
        client.publish("prices.gold", "2", stream: 19)
        #expect(client.received().filter { $0.hasPrefix("1") && $0.contains("]") } == ["13:[2]prices.gold:2"])
    }

    /// The broker's own topics match a pattern that begins in the same way.
    @Test(arguments: [1, 3]) func eventsMatchAPattern(_ shards: Int) {
        let broker = TestBroker(shards: shards)
        let client = broker.connect()
        client.subscribe("$SYS.*", stream: 11)
        client.subscribe(">", stream: 13)
        client.publish("t", "1", stream: 15)
        let lines = client.received()
        #expect(lines.contains { $0.hasPrefix("11:[") && $0.contains("$SYS.events:") && $0.contains("topic-created") })
        #expect(lines.filter { $0.hasPrefix("13:") } == ["13:[1]t:1"])
    }

    @Test(arguments: [1, 2]) func listsNameThePatternAndOperatorsEndIt(_ shards: Int) {
        let broker = TestBroker(shards: shards)
        let (client, reader) = (broker.connect(shards - 1), broker.connect())
        client.subscribe("orders.*", n: 3, stream: 11)
        for topic in ["orders.a", "orders.b", "other"] {
            for text in ["1", "2"] { reader.fireAndForget(topic, text) }
        }
        _ = (client.received(), reader.received())
        reader.subscribe("$SYS.subscriptions", stream: 21)
        let row = reader.received().first { $0.contains("orders.*") } ?? ""
        for figure in [
            #""topic":"orders.*""#, #""delivered":3"#, #""waiting":1"#, #""dropped":0"#, #""cursors":2"#,
            #""requested":3"#, #""outstanding":0"#, #""waits_for":"credit""#,
        ] {
            #expect(row.contains(figure), "\(figure) \(row)")
        }
        let id = row.split(separator: "\"id\":").last?.prefix { $0.isNumber } ?? ""
        reader.publish("$SYS.subscription.close?id=\(id)", "", stream: 23)
        #expect(client.received() == ["11:! 202 closed-by-operator: An operator ended this subscription."])
        #expect(reader.received().contains { $0.hasPrefix("23:") && $0.contains("orders.*") })
        reader.publish("$SYS.subscription.close?id=\(id)", "", stream: 25)
        #expect(reader.received().contains { $0.contains("There is no subscription \(id)") })
        #expect(broker.shards.allSatisfy { $0.subscriptions.count == 0 })
    }

    /// Formerly a cursor that had nothing to deliver was removed twice, and another client's in its place.
    @Test func cursorsAreRemovedOnce() {
        let broker = TestBroker()
        let (client, other, publisher) = (broker.connect(), broker.connect(), broker.connect())
        client.subscribe("t.*", stream: 11)
        other.subscribe("t.*", stream: 11)
        for topic in 1...400 { publisher.fireAndForget("t.\(topic)", "1") }
        #expect(other.received().count == 400)
        let parts = broker.shards[0].parts
        let stream = (0..<parts.tables.streams.bound).compactMap { parts.tables.streams.at($0) }.first {
            $0.connection.id == client.id
        }
        stream.map(parts.output.ends.drop)
        broker.now.monotonic += 6 * Limits.second
        for _ in 0..<20 { parts.requests.patterns.rest.begin(now: broker.now) }
        broker.runAll()
        for topic in 1...400 { publisher.fireAndForget("t.\(topic)", "2") }
        #expect(other.received().filter { $0.hasSuffix(":2") }.count == 400)
    }

    /// A topic with messages for a subscription to a pattern keeps its name, which others may subscribe to.
    @Test func aTopicWithMessagesThatWaitKeepsItsName() {
        var limits = Limits()
        limits.topicIdle = 5 * Limits.second
        let broker = TestBroker(limits: limits)
        let (client, publisher) = (broker.connect(), broker.connect())
        client.subscribe("t.*", n: 1, stream: 11)
        for text in ["1", "2"] { publisher.fireAndForget("t.a", text) }
        broker.advance(seconds: 20)
        client.subscribe("t.a", stream: 13)
        publisher.fireAndForget("t.a", "3")
        #expect(client.received().filter { $0.hasPrefix("1") } == ["11:[1]t.a:1", "13:3"])
    }
}
