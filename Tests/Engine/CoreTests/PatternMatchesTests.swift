// Topics beyond `max-matches`: a subscription receives them when it has fewer others with messages.

import Testing

@testable import Core

@Suite struct PatternMatchesTests {
    private static func broker(_ shards: Int, matches: Int = 2, retain: Int = 1024) -> TestBroker {
        var limits = Limits()
        limits.matches = matches
        limits.retain = retain
        limits.topicIdle = 10_000 * Limits.second
        return TestBroker(shards: shards, limits: limits)
    }

    /// A subscription without credit, with messages waiting in as many topics as it may have.
    private func stalled(_ broker: TestBroker, _ at: Int, _ from: Int) -> TestClient {
        let client = broker.connect(at)
        client.subscribe("t.*", n: 1)
        for text in ["1", "2"] { publish(broker, text, to: ["t.a", "t.b"], shard: from) }
        #expect(client.received() == ["1:[1]t.a:1"])
        return client
    }

    /// Whether its topic is followed by others in the meantime makes no difference.
    @Test(arguments: DeliveryTests.placements, [false, true])
    func whatWasSkippedArrivesLater(_ placement: (Int, Int, Int), _ isFollowed: Bool) {
        let (shards, at, from) = placement
        let broker = PatternMatchesTests.broker(shards)
        let client = stalled(broker, at, from)
        if isFollowed { broker.connect(at).subscribe("t.c") }
        for text in ["1", "2"] { publish(broker, text, to: ["t.c"], shard: from) }
        broker.advance(seconds: 20)
        if isFollowed { publish(broker, "3", to: ["t.c"], shard: from) }
        client.requestN(100)
        #expect(client.received().sorted() == ["1:[1]t.b:1", "1:[2]t.a:2", "1:[2]t.b:2"])
        broker.advance(seconds: 20)
        #expect(client.received() == ["1:[1]t.c:1", "1:[2]t.c:2"] + (isFollowed ? ["1:[3]t.c:3"] : []))
        publish(broker, "4", to: ["t.c"], shard: from)
        #expect(client.received() == [isFollowed ? "1:[4]t.c:4" : "1:[3]t.c:4"])
        #expect(broker.shards[at].counters.limits[.matches] >= 1)
    }

    @Test(arguments: DeliveryTests.placements)
    func whatIsNotRetainedIsReported(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = PatternMatchesTests.broker(shards, retain: 2)
        let client = stalled(broker, at, from)
        for text in ["1", "2", "3", "4", "5"] { publish(broker, text, to: ["t.c"], shard: from) }
        client.requestN(100)
        _ = client.received()
        broker.advance(seconds: 20)
        #expect(client.received() == ["1:[4-3]t.c:4", "1:[5]t.c:5"])
    }

    /// A topic that is deleted meanwhile is forgotten, and its name begins again.
    @Test(arguments: DeliveryTests.placements)
    func aDeletedTopicIsNotAwaited(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = PatternMatchesTests.broker(shards)
        let client = stalled(broker, at, from)
        let deleted = ["t.c", "t.e", "t.f", "t.g"]
        publish(broker, "old", to: deleted + ["t.d"], shard: from)
        let admin = broker.connect(from)
        for topic in deleted { admin.publish("$SYS.topic.delete?name=\(topic)", "") }
        client.requestN(100)
        _ = client.received()
        broker.advance(seconds: 20)
        #expect(client.received() == ["1:[1]t.d:old"])
        let table = broker.shards[at].parts.requests.patterns.table
        #expect(table.matches("t.c").allSatisfy { $0.allSatisfy(\.skipped.isEmpty) })
        publish(broker, "new", to: ["t.c"], shard: from)
        #expect(client.received() == ["1:[1]t.c:new"])
    }

    /// A subscription that began with more matches than a lower limit allows goes on.
    @Test(arguments: DeliveryTests.placements)
    func aLowerLimitEndsNoSubscription(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = PatternMatchesTests.broker(shards, matches: 10)
        publish(broker, "0", to: ["t.a", "t.b", "t.c"], shard: from)
        broker.advance(seconds: 20)
        let client = broker.connect(at)
        client.subscribe("t.*", n: 1)
        publish(broker, "1", to: ["t.a", "t.b"], shard: from)
        var limits = broker.limits
        limits.matches = 2
        for shard in broker.shards { shard.adopt(limits, now: broker.now) }
        broker.run()
        publish(broker, "1", to: ["t.c", "t.d"], shard: from)
        client.requestN(100)
        for _ in 0..<3 { broker.advance(seconds: 10) }
        #expect(client.received().sorted() == ["1:[1]t.d:1"] + ["a", "b", "c"].map { "1:[2]t.\($0):1" })
    }

    /// Topics that are skipped take little memory, however many they are, and none when the subscription has ended.
    @Test(arguments: [1, 2])
    func fewTopicsAreRemembered(_ shards: Int) {
        let broker = PatternMatchesTests.broker(shards)
        let client = stalled(broker, 0, shards - 1)
        let shard = broker.shards[0]
        let topics = (0..<2 * SkippedTopics.most).map { "t.x\($0)" }
        publish(broker, "x", to: topics, shard: shards - 1)
        let subscription = shard.parts.requests.patterns.table.matches("t.x0")[0][0]
        let most = SkippedTopics.most * SkippedTopics.memoryOfEach
        #expect(subscription.memory == most)
        client.requestN(1000)
        _ = client.received()
        var received: [String] = []
        // Two at a time.
        for _ in 0...SkippedTopics.most / 2 {
            broker.advance(seconds: 10)
            received += client.received().filter { $0.hasPrefix("1:") }
        }
        #expect(received.count == SkippedTopics.most)
        #expect(received.filter { !$0.hasPrefix("1:[1]t.x") } == [])
        publish(broker, "y", to: topics, shard: shards - 1)
        #expect(subscription.memory == most)
        client.disconnect()
        broker.run()
        #expect(subscription.memory == 0)
        #expect(shard.parts.requests.patterns.table.cursors == 0)
    }

    /// Until a subscription has begun, it is refused instead: another shard may be about to report more topics.
    @Test func nothingIsSkippedBeforeASubscriptionBegins() {
        let broker = PatternMatchesTests.broker(2)
        let (client, publisher) = (broker.connect(), broker.connect())
        for client in [client, publisher] { client.isFollowedByTurns = false }
        client.subscribe("t.*")
        let own = (0..<20).map { "t.\($0)" }.filter { broker.shards[0].owner(of: $0) == 0 }
        for topic in own.prefix(3) { publisher.fireAndForget(topic, "x") }
        broker.run()
        #expect(client.received().last?.hasPrefix("1:! 202 limit: More than 2 topics match") == true)
    }

    /// The log says which topics are concerned, and what to change.
    @Test func theLogNamesTheSetting() {
        let broker = PatternMatchesTests.broker(1)
        _ = stalled(broker, 0, 0)
        publish(broker, "x", to: ["t.c"])
        let late = broker.connect()
        late.subscribe("t.*")
        #expect(
            late.received() == [
                "1:! 202 limit: More than 2 topics match 't.*', the maximum of one subscription (max-matches); use a "
                    + "narrower pattern, or raise the limit."
            ])
        let causes = broker.log.compactMap { $0.fields.first { $0.0 == "cause" }?.1 }
        #expect(
            causes.contains {
                "\($0)".hasPrefix("The subscription to 't.*' skips 't.c', and perhaps others, for now: ")
            })
    }
}
