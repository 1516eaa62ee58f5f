// What operators see of shared topics, and of the connection to NATS, with a test in the upstream's place.

import Replay
import Testing

@testable import Core

@Suite struct UpstreamStatusTests {
    private func broker(_ shards: Int = 1) throws -> TestBroker {
        var limits = Limits()
        limits.shared = [try TopicPattern(parsing: "t")]
        return TestBroker(shards: shards, limits: limits)
    }

    private func survey(_ broker: TestBroker) throws -> SurveyPart {
        let owner = Shard.owner(of: "t", among: broker.shards.count)
        guard case .survey(let part) = broker.ask(.survey(Survey(.topics, most: 100, order: .name)), shard: owner)
        else {
            throw Missing()
        }
        return part
    }

    private func topic(_ broker: TestBroker) throws -> TopicStatistics {
        try #require(try survey(broker).topics.first { $0.name == "t" })
    }

    private func report(_ report: (TopicUse) -> UpstreamReport, to broker: TestBroker) {
        for case .join(let use, _) in broker.upstream {
            broker.shards[Shard.owner(of: "t", among: broker.shards.count)].upstream([report(use)], now: broker.now)
        }
        broker.run()
    }

    private struct Missing: Error {}

    @Test(arguments: DeliveryTests.placements)
    func subscriptionsOfATopicThatDoesNotExistAreCounted(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let (client, other) = (broker.connect(at), broker.connect(from))
        client.subscribe("t", stream: 1)
        client.subscribe("t", stream: 3)
        other.subscribe("t", stream: 1)
        #expect(try topic(broker).subscriptions == 3)
        client.cancel(stream: 1)
        #expect(try topic(broker).subscriptions == 2)
        report({ .joined($0, epoch: 7, next: .first) }, to: broker)
        report({ .current($0, wasEmpty: true) }, to: broker)
        broker.advance(seconds: 1)
        #expect(try topic(broker).subscriptions == 2)
    }

    @Test func aSharedTopicShowsWhatIsNotAcknowledged() throws {
        let broker = try broker()
        broker.connect().publish("t", "a")
        let topic = try topic(broker)
        let charge = Limits.messageOverhead + 1
        #expect(topic.storage.storage == .shared && !topic.storage.isStored)
        #expect(topic.storage.uncommitted == 1 && topic.storage.uncommittedBytes == charge)
        let fields = "\"storage\":\"shared\",\"resident_bytes\":0,\"uncommitted\":1,\"uncommitted_bytes\":\(charge),"
        #expect(topic.json.contains(fields), "\(topic.json)")
        let sums = try survey(broker).topicSums
        #expect(sums.durable == 0 && sums.relaxed == 0)
    }

    @Test func aTopicBeyondTheLimitIsCountedAndLogged() throws {
        let broker = try broker()
        let client = broker.connect()
        client.subscribe("t")
        var refusal = Refusal(.limit, "Too many.")
        refusal.limit = .sharedTopics
        report({ .left($0, refusal) }, to: broker)
        #expect(client.received().first?.contains("limit: Too many.") == true)
        #expect(try survey(broker).counters.limits[.sharedTopics] == 1)
        #expect(broker.log.contains { $0.message == "limit reached" })
    }

    @Test(arguments: [1, 2])
    func theConnectionIsInEventsAndStatistics(shards: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect()
        client.subscribe("$SYS.events", stream: 1)
        client.subscribe("$SYS.stats", stream: 3)
        var status = UpstreamStatus(since: broker.now.monotonic, time: 30 * Limits.second, maxTopics: 9)
        func take() -> (events: [String], stats: [String]) {
            for shard in Shard.ownersOfUpstream(among: shards) {
                broker.shards[shard].upstream(status, now: broker.now)
            }
            broker.advance(seconds: 1)
            let received = client.received()
            return (
                received.filter { $0.contains("\"event\":\"upstream") }, received.filter { $0.hasPrefix("3:") }
            )
        }
        #expect(take().events == [])
        (status.isConnected, status.server, status.counts.connections) = (true, "nats://a:4222", 1)
        var seen = take()
        #expect(seen.events.count == 1 && seen.events[0].contains("\"upstream-connected\""))
        #expect(seen.events[0].contains("\"server\":\"nats://a:4222\""))
        #expect(seen.stats.last?.contains("\"upstream\":{\"connected\":true,\"unavailable\":false,") == true)
        #expect(take().events == [])
        (status.isConnected, status.server, status.cause) = (false, "", "It was closed.")
        status.since = broker.now.monotonic
        seen = take()
        #expect(seen.events.count == 1 && seen.events[0].contains("\"upstream-lost\""))
        #expect(seen.events[0].contains("\"server\":\"nats://a:4222\",\"reason\":\"It was closed.\""))
        #expect(seen.stats.last?.contains("\"connected\":false,\"unavailable\":false,") == true)
        #expect(seen.stats.last?.contains("\"cause\":\"It was closed.\"") == true)
        broker.advance(seconds: 30)
        #expect(client.received().last { $0.hasPrefix("3:") }?.contains("\"unavailable\":true") == true)
    }

    @Test func aStatusKnowsHowLongNATSHasBeenUnreachable() {
        var status = UpstreamStatus(since: 5 * Limits.second, time: 30 * Limits.second, maxTopics: 1)
        #expect(status.obstacle(now: 6 * Limits.second) == "NATS JetStream has not been reached yet")
        status.wasConnected = true
        #expect(status.obstacle(now: 34 * Limits.second) == nil && !status.isUnavailable(now: 34 * Limits.second))
        #expect(status.obstacle(now: 35 * Limits.second) == "NATS has been unreachable for 30 s")
        status.cause = "It is down."
        #expect(status.obstacle(now: 47 * Limits.second) == "NATS has been unreachable for 42 s: It is down.")
        #expect(status.disconnected(now: 6 * Limits.second) == Limits.second && status.disconnected(now: 0) == 0)
        status.isConnected = true
        #expect(status.obstacle(now: .max) == nil && status.disconnected(now: .max) == 0)
        status.oldestPublish = 3
        #expect(status.publishWait(now: 10) == 7 && status.publishWait(now: 1) == 0)
    }
}
