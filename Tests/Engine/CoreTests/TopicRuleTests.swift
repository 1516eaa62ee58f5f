// What topics retain depending on their names, and the effect of changed limits.

import Testing

@testable import Core

@Suite struct TopicRuleTests {
    private func limits(_ rules: [TopicRule]) -> Limits {
        var limits = Limits()
        limits.topicRules = rules
        return limits
    }

    private func rule(
        _ pattern: String, retain: Int? = nil, bytes: Int? = nil, age: UInt64? = nil
    ) throws -> TopicRule {
        TopicRule(match: try TopicPattern(parsing: pattern), retain: retain, retainBytes: bytes, retainAge: age)
    }

    private func adopt(_ limits: Limits, _ broker: TestBroker) {
        for shard in broker.shards { shard.adopt(limits, now: broker.now) }
        broker.run()
    }

    /// The name of a topic that `shard` owns.
    private func name(_ broker: TestBroker, ownedBy shard: Int) -> String {
        (0...).lazy.map { "t.\($0)" }.first { broker.shards[0].owner(of: $0) == shard }!
    }

    @Test func theFirstMatchCountsAlone() throws {
        let limits = limits([
            try rule("a.b", retain: 1), try rule("a.*", retain: 2, bytes: 5000, age: 7), try rule(">", bytes: 6000),
        ])
        let figures: [(String, Retention)] = [
            ("a.b", Retention(messages: 1, bytes: 16 << 20, age: 0)),
            ("a.c", Retention(messages: 2, bytes: 5000, age: 7)), ("b", Retention(messages: 1024, bytes: 6000, age: 0)),
            ("$SYS.events", Retention(messages: 1024, bytes: 16 << 20, age: 0)),
        ]
        for (name, retention) in figures { #expect(limits.retention(of: name) == retention, "\(name)") }
    }

    @Test(arguments: [0, 1])
    func aTopicRetainsWhatItsRuleSays(_ owner: Int) throws {
        let broker = TestBroker(shards: 2, limits: limits([try rule("t.*", retain: 3)]))
        let (few, many) = (name(broker, ownedBy: owner), "u")
        let client = broker.connect()
        for i in 1...5 { for topic in [few, many] { client.fireAndForget(topic, "\(i)") } }
        client.subscribe("\(few)?replay=all", stream: 1)
        #expect(client.received() == ["1:3", "1:4", "1:5"])
        client.subscribe("\(many)?replay=all", stream: 3)
        #expect(client.received() == ["3:1", "3:2", "3:3", "3:4", "3:5"])
    }

    @Test func bytesAndAgeGoByTheRuleToo() throws {
        let broker = TestBroker(
            limits: limits([try rule("small", bytes: 4096), try rule("old", age: 2 * Limits.second)]))
        let client = broker.connect()
        for topic in ["small", "old", "other"] {
            for _ in 0..<10 { client.fireAndForget(topic, String(repeating: "x", count: 1000)) }
        }
        client.publish("small", String(repeating: "x", count: 5000), stream: 1)
        #expect(client.received().contains { $0.contains("the topic's log, which holds 4096") })
        broker.advance(seconds: 3)
        let topics = broker.shards[0].topics
        #expect(topics["small"]!.log.bytes <= 4096 && topics["small"]!.log.bytes > 2000)
        #expect(topics["old"]!.log.bytes == 0)
        #expect(topics["other"]!.log.bytes > 10_000)
    }

    @Test(arguments: [(0, 0), (0, 1), (1, 0)])
    func newFiguresHoldForTopicsThatAreThere(_ at: Int, _ owner: Int) throws {
        let broker = TestBroker(shards: 2, limits: Limits())
        let topic = name(broker, ownedBy: owner)
        let client = broker.connect(at)
        client.subscribe(topic, stream: 1)
        for i in 1...9 { client.fireAndForget(topic, "\(i)") }
        #expect(client.received().count == 9)
        adopt(limits([try rule("t.*", retain: 2)]), broker)
        client.subscribe("\(topic)?replay=all", stream: 3)
        #expect(client.received() == ["3:8", "3:9"])
        #expect(broker.shards[owner].topics[topic]!.log.window.count == 2)
        // Evicted messages do not come back.
        adopt(limits([try rule("t.*", retain: 5)]), broker)
        client.subscribe("\(topic)?replay=all", stream: 5)
        #expect(client.received() == ["5:8", "5:9"])
        for i in 10...14 { client.fireAndForget(topic, "\(i)") }
        // The subscription that existed before these changes has lost nothing.
        #expect(client.received().filter { $0.hasPrefix("1:") } == (10...14).map { "1:\($0)" })
        client.subscribe("\(topic)?replay=all", stream: 7)
        #expect(client.received() == (10...14).map { "7:\($0)" })
    }

    @Test func fewerBytesAreLossForThoseWhoWait() throws {
        let broker = TestBroker()
        let client = broker.connect()
        client.subscribe("t", n: 1, stream: 1)
        for i in 0..<10 { client.fireAndForget("t", "\(i)" + String(repeating: "x", count: 999)) }
        #expect(client.received().count == 1)
        adopt(limits([try rule("t", bytes: 4096)]), broker)
        #expect(broker.shards[0].topics["t"]!.log.bytes <= 4096)
        client.requestN(100)
        let rest = client.received()
        #expect(rest.count == 3 && rest[2].hasPrefix("1:9"))
    }

    @Test func moreBytesAreRoomForPublishersWhoWait() throws {
        let broker = TestBroker(limits: limits([try rule("t", bytes: 4096)]))
        let client = broker.connect()
        client.subscribe("t?overflow=block&buffer=100", n: 1, stream: 1)
        for i in 0..<6 { client.publish("t", String(repeating: "x", count: 1000), stream: UInt32(3 + 2 * i)) }
        let before = client.received().count { !$0.hasPrefix("1:") && !$0.contains("!") }
        #expect(before < 6)
        adopt(limits([]), broker)
        #expect(client.received().count { !$0.hasPrefix("1:") && !$0.contains("!") } >= 6 - before)
    }

    @Test func otherLimitsChangeUnderWay() {
        let broker = TestBroker()
        let client = broker.connect()
        client.subscribe("a", stream: 1)
        var limits = Limits()
        limits.subscriptions = 1
        limits.topics = 2
        adopt(limits, broker)
        client.subscribe("a", stream: 3)
        #expect(client.received().map { $0.prefix(7) } == ["3:! 202"])
        client.publish("new", "x", stream: 5)
        #expect(client.received().first?.contains("limit: The broker has 2 topics") == true)
        client.fireAndForget("a", "still there")
        #expect(client.received() == ["1:still there"])
        adopt(Limits(), broker)
        client.subscribe("new", stream: 7)
        #expect(client.received() == [])
    }
}
