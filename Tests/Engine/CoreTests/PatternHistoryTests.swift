// PatternHistoryTests: subscriptions to patterns that begin with messages which only a store has.

import Testing

@testable import Core

@Suite struct PatternHistoryTests {
    /// A broker that keeps nothing committed in memory, with the messages 1 to 3 in each of these topics.
    private func broker(_ shards: Int, _ topics: [String], from: Int) throws -> (TestBroker, TestClient) {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        limits.resident = 0
        let broker = TestBroker(shards: shards, limits: limits)
        let publisher = broker.connect(from)
        for topic in topics { for number in 1...3 { publisher.fireAndForget(topic, "\(number)") } }
        broker.commit()
        return (broker, publisher)
    }

    @Test(arguments: DeliveryTests.placements)
    func allTopicsAreReplayedFromTheStore(_ shards: Int, _ at: Int, _ from: Int) throws {
        let (broker, publisher) = try broker(shards, ["t.a", "t.b"], from: from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*?replay=2", n: 3)
        #expect(subscriber.received() == [])
        publisher.fireAndForget("t.a", "4")
        broker.commit()
        while !broker.reads.isEmpty { broker.bring() }
        var received = subscriber.received()
        #expect(received.count == 3 && received[0] == "1:[2]t.a:2", "\(received)")
        subscriber.requestN(100)
        while !broker.reads.isEmpty { broker.bring() }
        received += subscriber.received()
        #expect(
            received.sorted() == ["1:[2]t.a:2", "1:[2]t.b:2", "1:[3]t.a:3", "1:[3]t.b:3", "1:[4]t.a:4"])
    }

    /// What is published while the store searches for the first message since a time is for the subscription, whatever
    /// the search finds.
    @Test(arguments: DeliveryTests.placements)
    func nothingIsLostDuringASearch(_ shards: Int, _ at: Int, _ from: Int) throws {
        let (broker, publisher) = try broker(shards, ["t.a"], from: from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*?since=2033-01-01T00:00:00Z")
        #expect(broker.store.searches.count == 1)
        for number in 4...5 { publisher.fireAndForget("t.a", "\(number)") }
        broker.commit()
        while !broker.store.searches.isEmpty { broker.find(nil) }
        while !broker.reads.isEmpty { broker.bring() }
        #expect(subscriber.received() == ["1:[4]t.a:4", "1:[5]t.a:5"])
    }

    /// The store may write messages and the deletion of their topic in one transaction.
    @Test(arguments: DeliveryTests.placements, [1, 3])
    func messagesBeforeADeletionAreReceived(_ placement: (Int, Int, Int), _ count: Int) throws {
        let (shards, at, from) = placement
        let broker = try TestBroker.storing(shards)
        let (subscriber, publisher) = (broker.connect(at), broker.connect(from))
        subscriber.subscribe("t.*")
        var topics: Set<[Int]> = []
        for round in 1...3 {
            for number in 1...count { publisher.fireAndForget("t.a", "\(round)\(number)") }
            publisher.publish("$SYS.topic.delete?name=t.a", "")
            #expect(subscriber.received() == [])
            broker.commit()
            #expect(subscriber.received() == (1...count).map { "1:[\($0)]t.a:\(round)\($0)" })
            topics.insert(broker.shards.map(\.topics.count))
        }
        #expect(topics.count == 1, "a deleted topic is removed")
    }
}
