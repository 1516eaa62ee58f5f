// Subscriptions to patterns that a shared topic matches. The tests take the upstream's place.

import ForebayWire
import Replay
import Testing

@testable import Core

@Suite struct SharedPatternTests: SharedTopicTesting {
    private static let gone = Refusal(.unavailable, "NATS is gone.")

    /// Answers the searches of a new subscription.
    private func answerSearches(
        _ broker: TestBroker, names: [String] = [], wantsNames expected: Bool? = nil
    ) -> [UInt64] {
        var numbers: [UInt64] = []
        for case .search(let number, _, let wantsNames) in requests(broker) {
            numbers.append(number)
            #expect(wantsNames == expected ?? !names.isEmpty)
        }
        #expect(numbers.count == broker.shards.count && Set(numbers).count == 1)
        for shard in broker.shards {
            let isOwner = shard === owner(broker)
            shard.upstream([.matched(numbers[0], names: isOwner ? names : [], isLast: true)], now: broker.now)
        }
        broker.run()
        return numbers
    }

    @Test(arguments: DeliveryTests.placements)
    func aTopicThatWasHeardIsFollowed(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("*")
        _ = answerSearches(broker)
        report([.heard("t")], to: broker)
        let use = try #require(joined(broker))
        report(
            [
                .joined(use, epoch: 7, next: SequenceNumber(5)), .followed(use, from: SequenceNumber(6)),
                .messages(use, batch(["old", "new"], from: 5)),
            ], to: broker)
        #expect(client.received() == [])
        report([.current(use, wasEmpty: false)], to: broker)
        #expect(client.received() == ["1:[6]t:new"])
        report([.messages(use, batch(["newer"], from: 7))], to: broker)
        #expect(client.received() == ["1:[7]t:newer"])
    }

    @Test(arguments: DeliveryTests.placements)
    func whatTopicsRetainIsReplayed(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("*?replay=2", stream: 1)
        _ = answerSearches(broker, names: ["t"])
        let use = try #require(joined(broker))
        report(
            [
                .joined(use, epoch: 7, next: SequenceNumber(5)), .followed(use, from: SequenceNumber(8)),
                .messages(use, batch(["a", "b", "c"], from: 5)),
            ], to: broker)
        #expect(client.received() == [])
        report([.current(use, wasEmpty: false)], to: broker)
        #expect(client.received() == ["1:[6]t:b", "1:[7]t:c"])
    }

    /// What a subscription that has ended asked for waits neither for NATS nor for a topic.
    @Test(arguments: DeliveryTests.placements)
    func endedSubscriptionsWaitForNothing(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        let followers = broker.shards.map(\.parts.requests.followers)
        client.subscribe("*?replay=2", stream: 1)
        #expect(followers.allSatisfy { $0.waiting.count == 1 })
        client.cancel(stream: 1)
        #expect(followers.allSatisfy { $0.waiting.isEmpty })
        _ = requests(broker)
        client.subscribe("*?replay=2", stream: 3)
        _ = answerSearches(broker, names: ["t"])
        #expect(followers.map(\.places.count).reduce(0, +) == 1, "it waits until the topic is current")
        client.cancel(stream: 3)
        #expect(followers.allSatisfy { $0.waiting.isEmpty && $0.places.isEmpty })
    }

    /// The node looked for the topic before another node created it.
    @Test(arguments: DeliveryTests.placements)
    func aTopicThatIsListedIsNotAbsent(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("t", stream: 1)
        let use = try #require(joined(broker))
        report([.absent(use)], to: broker)
        client.subscribe("*?replay=all", stream: 3)
        _ = answerSearches(broker, names: ["t"])
        report(
            [
                .joined(use, epoch: 7, next: .first), .followed(use, from: SequenceNumber(3)),
                .messages(use, batch(["a", "b"], from: 1)), .current(use, wasEmpty: true),
            ], to: broker)
        #expect(client.received().filter { $0.hasPrefix("3:") } == ["3:[1]t:a", "3:[2]t:b"])
    }

    /// The same, but the node has found it itself, and is reading its messages.
    @Test(arguments: DeliveryTests.placements)
    func aTopicThatIsBeingReadIsNotAbsent(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("t", stream: 1)
        let use = try #require(joined(broker))
        report([.absent(use)], to: broker)
        report([.joined(use, epoch: 7, next: .first), .followed(use, from: SequenceNumber(2))], to: broker)
        client.subscribe("*?replay=all", stream: 3)
        _ = answerSearches(broker, wantsNames: true)
        report([.messages(use, batch(["a", "b"], from: 1)), .current(use, wasEmpty: true)], to: broker)
        #expect(client.received().filter { $0.hasPrefix("3:") } == ["3:[1]t:a", "3:[2]t:b"])
    }

    /// A client comes from a node that had the topic's next epoch already.
    @Test(arguments: DeliveryTests.placements)
    func aNodeMayBeBehind(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("*?replay=all", data: #"{"t": ["9", 3]}"#)
        _ = answerSearches(broker, names: ["t"])
        let former = try #require(joined(broker))
        report(
            [
                .joined(former, epoch: 7, next: .first), .followed(former, from: SequenceNumber(2)),
                .messages(former, batch(["old"], from: 1)), .current(former, wasEmpty: false),
            ], to: broker)
        #expect(client.received() == ["1:[1]t:old"])
        report([.ended(former, .deleted, by: nil)], to: broker)
        report([.heard("t")], to: broker)
        let use = try #require(joined(broker))
        report(
            [
                .joined(use, epoch: 9, next: .first), .followed(use, from: .first),
                .messages(use, batch(["a", "b", "c"], from: 1)), .current(use, wasEmpty: false),
            ], to: broker)
        #expect(client.received() == ["1:[3]t:c"])
        report([.messages(use, batch(["d"], from: 4))], to: broker)
        #expect(client.received() == ["1:[4]t:d"])
    }

    /// The stream begins with a message that is not for subscribers, from which the subscription follows the topic.
    @Test(arguments: [("all", 1), ("5", 1)])
    func aReplayMayEndInAHole(_ replay: String, _ shards: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(0)
        client.subscribe("*?replay=\(replay)")
        _ = answerSearches(broker, names: ["t"])
        let use = try #require(joined(broker))
        report(
            [
                .joined(use, epoch: 7, next: .first), .followed(use, from: .first),
                .messages(use, batch(["a"], from: 2)), .current(use, wasEmpty: false),
            ], to: broker)
        #expect(client.received() == ["1:[2]t:a"])
    }

    /// The stream ends with a message that is not for subscribers, after which the list says that the topic goes on.
    @Test(arguments: ["all", "1"])
    func aCompletedTopicIsReplayed(_ replay: String) throws {
        let broker = try broker(1)
        let client = broker.connect(0)
        client.subscribe("*?replay=\(replay)&overflow=latest", stream: 1)
        _ = answerSearches(broker, names: ["t"])
        let use = try #require(joined(broker))
        report(
            [
                .joined(use, epoch: 7, next: .first), .followed(use, from: SequenceNumber(4)),
                .messages(use, batch(["a", "b"], from: 1)), .ended(use, .completed, by: nil),
                .current(use, wasEmpty: false),
            ], to: broker)
        #expect(client.received() == ["1:[2]t:b"])
    }

    /// NATS cannot be reached. What shared topics retain must not be left out in silence.
    @Test(arguments: DeliveryTests.placements)
    func aSubscriptionWithHistoryIsRefusedIfTopicsAreNotKnown(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("*?replay=2", stream: 1)
        guard case .search(let number, _, true) = requests(broker).first else {
            Issue.record("no search")
            return
        }
        for shard in broker.shards { shard.upstream([.unlisted(number, Self.gone)], now: broker.now) }
        broker.run()
        #expect(client.received() == ["1:! 202 unavailable: NATS is gone."])
        #expect(broker.quotas.patterns.value == 0 && broker.quotas.subscriptions.value == 0)
    }

    /// The node has read some of the topic's messages when it learns of the end.
    @Test(arguments: DeliveryTests.placements)
    func aTopicEndsBeforeItIsCurrent(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("*?replay=all&overflow=latest", stream: 1)
        client.subscribe("*?replay=all", stream: 3)
        for case .search(let number, _, _) in requests(broker) {
            for shard in broker.shards {
                shard.upstream([.matched(number, names: [], isLast: true)], now: broker.now)
            }
        }
        broker.run()
        report([.heard("t")], to: broker)
        let use = try #require(joined(broker))
        report(
            [
                .joined(use, epoch: 7, next: .first), .followed(use, from: SequenceNumber(9)),
                .messages(use, batch(["a", "b"], from: 1)), .ended(use, .completed, by: nil),
            ], to: broker)
        client.requestN(1, stream: 3)
        #expect(client.received().allSatisfy { $0.contains("t:a") || $0.contains("t:b") })
        client.subscribe("other", stream: 5)
        #expect(try #require(joined(broker)).topic == "other")
    }

    /// A topic that the node cannot follow does not hold up the others.
    @Test func aTopicThatCannotBeJoinedIsPassedOver() throws {
        let broker = try broker()
        let client = broker.connect()
        client.subscribe("*?replay=all", stream: 1)
        _ = answerSearches(broker, names: ["t", "u"])
        let uses = requests(broker).compactMap { if case .join(let use, _) = $0 { use } else { nil } }
        #expect(uses.map(\.topic) == ["t", "u"])
        report([.left(uses[0], SharedPatternTests.gone)], to: broker)
        report(
            [
                .joined(uses[1], epoch: 8, next: SequenceNumber(1)), .messages(uses[1], batch(["a"], from: 1)),
                .current(uses[1], wasEmpty: false),
            ], to: broker)
        #expect(client.received() == ["1:[1]u:a"])
    }

    /// What waited when the topic was left is reported as dropped. Then it is followed again, under the same epoch.
    @Test(arguments: DeliveryTests.placements)
    func aTopicIsLeftAndFollowedAgain(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("*", n: 1)
        _ = answerSearches(broker)
        for round: UInt64 in 0..<2 {
            report([.heard("t")], to: broker)
            let use = try #require(joined(broker))
            let first = 1 + 3 * round
            report(
                [
                    .joined(use, epoch: 7, next: SequenceNumber(first)), .followed(use, from: SequenceNumber(first)),
                    .messages(use, batch(["a", "b", "c"].map { "\($0)\(round)" }, from: first)),
                    .current(use, wasEmpty: false),
                ], to: broker)
            #expect(client.received() == ["1:[\(first)]t:a\(round)"])
            report([.left(use, SharedPatternTests.gone)], to: broker)
            client.requestN(1)
            #expect(client.received() == [])
            #expect(owner(broker).topics["t"] == nil && broker.shards.allSatisfy { $0.views.count == 0 })
        }
    }

    @Test func theLastSubscriptionForgetsThePattern() throws {
        let broker = try broker(2)
        let client = broker.connect()
        client.subscribe("*", stream: 1)
        client.subscribe("*", stream: 3)
        _ = requests(broker)
        client.cancel(stream: 1)
        #expect(requests(broker).isEmpty)
        client.cancel(stream: 3)
        let forgotten = requests(broker).count { if case .discard = $0 { true } else { false } }
        #expect(forgotten == 2)
        // A late answer concerns nobody.
        for shard in broker.shards { shard.upstream([.matched(1, names: ["t"], isLast: true)], now: broker.now) }
        broker.run()
        #expect(joined(broker) == nil)
    }
}
