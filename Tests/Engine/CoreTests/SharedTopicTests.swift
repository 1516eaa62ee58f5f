// Shared topics on the shard that owns them, with a test in the upstream's place.

import ForebayWire
import Replay
import Testing

@testable import Core

@Suite struct SharedTopicTests: SharedTopicTesting {
    @Test(arguments: DeliveryTests.placements)
    func subscriptionsBeginOnceTheTopicIsCurrent(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?replay=1&meta=on")
        let use = try #require(joined(broker))
        report(
            [.joined(use, epoch: 7, next: SequenceNumber(5)), .messages(use, batch(["a", "b"], from: 5))], to: broker)
        #expect(subscriber.received() == [])
        report([.current(use, wasEmpty: false), .messages(use, batch(["c"], from: 7))], to: broker)
        #expect(subscriber.received() == ["1:[6]b", "1:[7]c"])
    }

    @Test(arguments: DeliveryTests.placements)
    func aPublishIsAcknowledgedWhenItComesBack(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let publisher = broker.connect(from)
        publisher.publish("t", "mine")
        var tickets: [PublishTicket] = []
        var use: TopicUse?
        for request in requests(broker) {
            switch request {
            case .join(let joined, _): use = joined
            case .publish(let publish): tickets.append(publish.ticket)
            case .leave, .end, .find, .search, .discard: break
            }
        }
        let joined = try #require(use)
        #expect(tickets.count == 1 && broker.memory.used > 0)
        report([.joined(joined, epoch: 7, next: .first), .current(joined, wasEmpty: true)], to: broker)
        report([.messages(joined, batch(["other"], from: 1))], to: broker)
        #expect(publisher.received() == [])
        report([.messages(joined, batch(["mine"], from: 2, tickets: tickets))], to: broker)
        #expect(publisher.received().map { $0.prefix(4) } == ["3:2|"])
    }

    /// What the upstream reported before it learned that the topic was left, and joined again, concerns nobody.
    @Test func reportsAboutAFormerUseAreIgnored() throws {
        let broker = try broker()
        let subscriber = broker.connect()
        subscriber.subscribe("t?replay=all&meta=on")
        let use = try #require(joined(broker))
        let former = TopicUse(topic: "t", number: use.number + 1)
        report([.joined(former, epoch: 6, next: .first), .messages(former, batch(["old"], from: 1))], to: broker)
        report([.current(former, wasEmpty: false), .left(former, .draining)], to: broker)
        #expect(subscriber.received() == [])
        report(
            [
                .joined(use, epoch: 7, next: SequenceNumber(3)), .messages(use, batch(["new"], from: 3)),
                .current(use, wasEmpty: false),
            ], to: broker)
        #expect(subscriber.received() == ["1:[3]new"])
    }

    /// A client may know a position from another node, which is ahead of this one.
    @Test(arguments: DeliveryTests.placements)
    func aPositionThatIsNotReachedYetIsWaitedFor(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let use = try begin(broker, broker.connect(from))
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?from=4&epoch=7&gap=fail&meta=on")
        subscriber.subscribe("t?from=9&epoch=7&meta=off", stream: 3)
        report([.messages(use, batch(["b", "c"], from: 2))], to: broker)
        #expect(subscriber.received() == [])
        report([.messages(use, batch(["d", "e"], from: 4))], to: broker)
        #expect(subscriber.received() == ["1:[4]d", "1:[5]e"])
        report([.left(use, Refusal(.unavailable, "Gone."))], to: broker)
        let received = subscriber.received()
        #expect(received.count == 2 && received.allSatisfy { $0.contains("unavailable: Gone.") })
    }

    /// A subscription that waits for a position keeps its topic, until it is cancelled.
    @Test(arguments: DeliveryTests.placements)
    func aTopicThatIsAwaitedDoesNotBecomeIdle(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let publisher = broker.connect(from)
        let use = try begin(broker, publisher)
        publisher.disconnect()
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?from=4&epoch=7&gap=fail&meta=on")
        subscriber.subscribe("t?from=9&epoch=7&gap=fail&meta=on", stream: 3)
        broker.advance(seconds: 400)
        report([.messages(use, batch(["b", "c", "d"], from: 2))], to: broker)
        #expect(subscriber.received().filter { !$0.hasPrefix("keepalive") } == ["1:[4]d"])
        subscriber.cancel()
        broker.advance(seconds: 400)
        #expect(!requests(broker).contains { if case .leave = $0 { true } else { false } })
        subscriber.cancel(stream: 3)
        broker.advance(seconds: 400)
        #expect(requests(broker).contains { if case .leave(use, _) = $0 { true } else { false } })
    }

    @Test func aTopicThatIsLeftEndsItsSubscriptions() throws {
        let broker = try broker()
        let subscriber = broker.connect()
        subscriber.subscribe("t?replay=all&meta=off")
        let use = try #require(joined(broker))
        report([.joined(use, epoch: 7, next: .first), .current(use, wasEmpty: true)], to: broker)
        report([.messages(use, batch(["a"], from: 1)), .left(use, Refusal(.unavailable, "Gone."))], to: broker)
        let received = subscriber.received()
        #expect(received.first == "1:a" && received.count == 2 && received[1].contains("unavailable: Gone."))
        // Publishing or subscribing again joins it again.
        subscriber.subscribe("t", stream: 3)
        #expect(joined(broker).map { $0 != use } == true)
    }

    /// While NATS is unreachable, the upstream refuses to follow the topic before it sees what was published.
    @Test(arguments: DeliveryTests.placements)
    func publishesOfATopicThatIsLeftAreRefused(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let publisher = broker.connect(from)
        publisher.publish("t", String(repeating: "x", count: 20_000), stream: 1)
        publisher.publish("t", "two", stream: 3)
        let use = try #require(joined(broker))
        #expect(broker.memory.used > 20_000)
        report([.left(use, Refusal(.unavailable, "Gone."))], to: broker)
        let received = publisher.received()
        #expect(received.count == 2 && received.allSatisfy { $0.contains("unavailable: Gone.") }, "\(received)")
        #expect(broker.memory.used < 20_000)
        let refused = broker.shards.map { $0.counters.publishesRefused }
        #expect(refused.reduce(0) { $0 + $1[.unavailable] } == 2 && refused.allSatisfy { $0[.draining] == 0 })
    }

    /// The upstream removes the topic, and then receives a publish: nothing but the end answers that.
    @Test(arguments: DeliveryTests.placements)
    func publishesThatCrossTheDeletionAreRefused(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let publisher = broker.connect(from)
        publisher.publish("t", "one", stream: 1)
        let use = try #require(joined(broker))
        report([.joined(use, epoch: 7, next: .first), .current(use, wasEmpty: true)], to: broker)
        publisher.publish("t", "two", stream: 3)
        let used = broker.memory.used
        report([.ended(use, .deleted, by: nil)], to: broker)
        let received = publisher.received()
        #expect(received.count == 2 && received.allSatisfy { $0.contains("deleted") }, "\(received)")
        #expect(broker.memory.used <= used)
    }

    /// A topic that does not exist yet, and for which nobody waits any longer, does not stay.
    @Test(arguments: DeliveryTests.placements)
    func aTopicThatNobodyAwaitsIsLeft(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("t", stream: 1)
        client.subscribe("t", stream: 3)
        let use = try #require(joined(broker))
        func isLeft() -> Bool {
            requests(broker).contains { if case .leave(let other, _) = $0 { other == use } else { false } }
        }
        client.cancel(stream: 1)
        broker.advance(seconds: 400)
        #expect(!isLeft())
        client.cancel(stream: 3)
        client.subscribe("t", stream: 5)
        broker.advance(seconds: 400)
        #expect(!isLeft())
        client.cancel(stream: 5)
        broker.advance(seconds: 400)
        #expect(isLeft())
        client.subscribe("t?replay=all&meta=off", stream: 7)
        let next = try #require(joined(broker))
        report(
            [
                .joined(next, epoch: 7, next: .first), .messages(next, batch(["a"], from: 1)),
                .current(next, wasEmpty: true),
            ],
            to: broker)
        #expect(client.received().last == "7:a")
    }

    /// Cancelled before the topic is current, a subscription does not count once it is, and does not keep the topic.
    @Test(arguments: DeliveryTests.placements)
    func aSubscriptionCancelledWhileJoiningIsForgotten(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let client = broker.connect(at)
        client.subscribe("t?replay=all")
        let use = try #require(joined(broker))
        client.cancel()
        report([.joined(use, epoch: 7, next: .first), .messages(use, batch(["a"], from: 1))], to: broker)
        report([.current(use, wasEmpty: false)], to: broker)
        #expect(owner(broker).topics["t"]?.views.isEmpty == true)
        #expect(broker.shards.allSatisfy { $0.views.count == 0 })
        broker.advance(seconds: 400)
        #expect(requests(broker).contains { if case .leave(use, _) = $0 { true } else { false } })
        #expect(owner(broker).topics["t"] == nil)
    }

    /// What is lost counts, what is for nodes does not, also if nothing follows in the same report.
    @Test func lostMessagesCountAsDropped() throws {
        let broker = try broker()
        let subscriber = broker.connect()
        let use = try begin(broker, subscriber)
        var lost = FeedBatch()
        lost.lose(upTo: SequenceNumber(4))
        report([.messages(use, lost)], to: broker)
        #expect(subscriber.received() == [])
        // 4 is a control message.
        var batch = batch(["b"], from: 5)
        batch.lose(upTo: SequenceNumber(9))
        Array("c".utf8).withUnsafeBytes {
            batch.append(
                FeedBatch.Item(sequence: SequenceNumber(11), timestamp: 1, ticket: nil), metadata: nil, payload: $0)
        }
        report([.messages(use, batch)], to: broker)
        #expect(subscriber.received() == ["1:b", "1:c"])
        let member = broker.shards[0].views.attached.first { _ in true }?.members.first
        #expect(member?.cursor.dropped == 2 + 3)
    }
}
