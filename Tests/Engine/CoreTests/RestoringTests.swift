// Topics that a store has from an earlier run of the broker: their names, epochs, sequences and ends; and what happens
// if the store refuses messages.

import ForebayWire
import Replay
import Testing

@testable import Core

@Suite struct RestoringTests {
    private func broker(_ shards: Int = 1, relaxed: Bool = false) throws -> TestBroker {
        try TestBroker.storing(shards, relaxed: relaxed)
    }

    private func earlier(
        _ messages: Range<UInt64>, epoch: UInt64 = 77, relaxed: Bool = false, lost: Bool = false,
        end: StoredEnd? = nil
    ) -> StoredTopic {
        StoredTopic(
            row: StoredTopicRow(id: StoreID(5), name: "t", epoch: epoch, isRelaxed: relaxed, end: end),
            messages: SequenceRange(
                lower: SequenceNumber(messages.lowerBound), upper: SequenceNumber(messages.upperBound)),
            charged: 650...65 * (messages.upperBound - 1), lastTimestamp: 1_600_000_000_000_000_000,
            mayHaveLost: lost)
    }

    private func restore(_ broker: TestBroker, _ topic: StoredTopic) {
        broker.shards[Shard.owner(of: "t", among: broker.shards.count)].restore([topic], now: broker.now)
        broker.run()
    }

    @Test(arguments: DeliveryTests.placements)
    func messagesContinueWhereTheyEnded(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        restore(broker, earlier(11..<21))
        let (subscriber, publisher) = (broker.connect(at), broker.connect(from))
        subscriber.subscribe("t?from=21&epoch=77&meta=on")
        publisher.publish("t", "a")
        broker.commit()
        #expect(subscriber.received() == ["1:[21]a"])
        #expect(broker.store.rows.isEmpty, "the store has the topic already")
        #expect(broker.reads.isEmpty)
    }

    @Test func historyIsReadFromTheStore() throws {
        let broker = try broker()
        restore(broker, earlier(11..<21))
        broker.connect().subscribe("t?replay=all&meta=on")
        #expect(broker.reads.map { $0.request.first.value } == [11])
        #expect(broker.reads.map { $0.request.id.value } == [5])
    }

    @Test func anEndedTopicStaysEnded() throws {
        let broker = try broker()
        restore(broker, earlier(11..<21, end: .completed))
        let client = broker.connect()
        client.subscribe("t?meta=off")
        client.publish("t", "a", stream: 3)
        let heard = client.received()
        #expect(heard.first == "1:|")
        #expect(heard.last?.contains("completed") == true, "\(heard)")
    }

    @Test func aRelaxedTopicThatMayHaveLostMessagesTakesANewEpoch() throws {
        let broker = try broker(relaxed: true)
        restore(broker, earlier(11..<21, relaxed: true, lost: true))
        let row = try #require(broker.store.rows.first)
        #expect(row.epoch != 77)
        #expect(row.former == [FormerEpoch(epoch: 77, end: SequenceNumber(21))])
        let (exact, later, unknown) = (broker.connect(), broker.connect(), broker.connect())
        exact.subscribe("t?from=21&epoch=77&meta=on")
        later.subscribe("t?from=25&epoch=77&gap=fail&meta=on")
        unknown.subscribe("t?from=21&epoch=78&gap=fail&meta=on")
        #expect(later.received().first?.contains("gap: ") == true)
        #expect(unknown.received().first?.contains("gap: ") == true)
        later.subscribe("t?from=25&epoch=77&meta=on", stream: 3)
        broker.connect().fireAndForget("t", "a")
        #expect(exact.received() == ["1:[21]a"])
        #expect(later.received() == ["3:[21]a"])
    }

    @Test(arguments: DeliveryTests.placements)
    func refusedMessagesWereNeverThere(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let (subscriber, publisher, channel) = (broker.connect(at), broker.connect(from), broker.connect(from))
        subscriber.subscribe("t?meta=on")
        publisher.publish("t", "a")
        broker.commit()
        #expect(publisher.received().count == 1)
        channel.channel("t", "b")
        publisher.publish("t", "c", stream: 5)
        broker.refuse(.aborted)
        #expect(publisher.received().first?.contains("store: ") == true)
        #expect(channel.received().last?.contains("store: ") == true)
        publisher.publish("t", "d", stream: 7)
        broker.commit()
        #expect(subscriber.received() == ["1:[1]a", "1:[2]d"])
    }

    @Test func reportsAboutWithdrawnMessagesAreIgnored() throws {
        let broker = try broker()
        let publisher = broker.connect()
        publisher.publish("t", "a")
        let stale = broker.appended[0][0]
        broker.refuse(.aborted)
        publisher.publish("t", "b", stream: 5)
        broker.shards[0].stored(
            [
                .refused(topic: stale.topic, attempt: stale.attempt, .aborted),
                .committed(topic: stale.topic, attempt: stale.attempt, upTo: stale.end),
            ], now: broker.now)
        broker.run()
        #expect(publisher.received().count == 1)
        broker.commit()
        #expect(publisher.received().count == 1)
    }

    @Test func aFailedStoreTakesNothing() throws {
        let broker = try broker()
        let publisher = broker.connect()
        publisher.publish("t", "a")
        broker.refuse(.unknown)
        #expect(publisher.received().first?.contains("store: outcome unknown") == true)
    }

    @Test func aTopicWhoseFirstMessageWasRefusedIsKeptLater() throws {
        let broker = try broker()
        let publisher = broker.connect()
        publisher.publish("t", "a")
        broker.refuse(.full)
        publisher.publish("t", "b", stream: 5)
        #expect(broker.store.rows.count == 2)
    }

    @Test func aRelaxedTopicDoesNotWait() throws {
        let broker = try broker(relaxed: true)
        let (subscriber, publisher) = (broker.connect(), broker.connect())
        subscriber.subscribe("t?meta=off")
        publisher.publish("t", "a")
        #expect(subscriber.received() == ["1:a"])
        #expect(publisher.received().count == 1)
        broker.refuse(.full)
        #expect(broker.appended[0].isEmpty)
        broker.advance(seconds: 1)
        #expect(broker.appended[0].count == 1, "the store is asked again")
        broker.commit()
    }

    @Test func anIdleTopicLeavesMemoryButNotTheBroker() throws {
        let broker = try broker()
        broker.connect().publish("t", "a")
        broker.commit()
        broker.advance(seconds: 310)
        let topic = try #require(broker.shards[0].topics["t"])
        #expect(topic.log.isEmpty)
        broker.connect().subscribe("t?replay=all&meta=off")
        #expect(broker.reads.count == 1)
    }

    @Test(arguments: DeliveryTests.placements)
    func messagesSinceATimeAreSearchedFor(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        restore(broker, earlier(11..<21))
        let (searching, newer, gone) = (broker.connect(at), broker.connect(at), broker.connect(at))
        searching.subscribe("t?since=2020-09-13T12:00:00Z&meta=on")
        gone.subscribe("t?since=2020-09-13T12:00:00Z&meta=on")
        newer.subscribe("t?since=2023-11-14T22:13:20Z&meta=on")
        #expect(
            broker.store.searches.map(\.search.time) == [
                1_599_998_400_000_000_000, 1_599_998_400_000_000_000, 1_700_000_000_000_000_000,
            ])
        gone.cancel()
        broker.find(15)
        broker.find(15)
        #expect(broker.reads.map { $0.request.first.value } == [15])
        broker.find(nil)
        broker.connect(from).fireAndForget("t", "a")
        broker.commit()
        #expect(newer.received() == ["1:[21]a"])
    }

    @Test func messagesOfEarlierRunsBecomeTooOld() throws {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        limits.retainAge = 60 * Limits.second
        let broker = TestBroker(limits: limits)
        restore(broker, earlier(11..<21))
        broker.advance(seconds: 3)
        #expect(broker.store.searches.count == 1, "one search at a time")
        broker.find(15)
        #expect(broker.trimmed == 15)
        broker.advance(seconds: 3)
        broker.find(nil)
        #expect(broker.trimmed == 21)
        broker.advance(seconds: 60)
        #expect(broker.store.searches.isEmpty)
    }

    @Test func numbersAreStoredWithTheirMessages() throws {
        let broker = try broker()
        let client = broker.connect()
        client.publish("t?publisher=p&number=1", "a")
        let changes = try #require(broker.store.publishers.last)
        #expect(changes.changed.map { [$0.number, $0.sequence] } == [[1, 1]])
        broker.refuse(.aborted)
        #expect(client.received().first?.contains("store: ") == true)
        client.publish("t?publisher=p&number=1", "b", stream: 5)
        client.publish("t?publisher=p&number=1", "b", stream: 7)
        #expect(client.received().isEmpty, "a duplicate waits for its original")
        broker.commit()
        #expect(client.received().count == 2)
        #expect(broker.shards[0].topics["t"]?.log.end == SequenceNumber(2))
    }

    @Test func numbersContinueAfterARestart() throws {
        let broker = try broker()
        var topic = earlier(11..<21)
        let key = PublisherKey(user: nil, id: "p").bytes
        topic.publishers = [StoredPublisher(key: key, number: 8, sequence: 20, usedAt: broker.now.wall)]
        restore(broker, topic)
        let client = broker.connect()
        client.publish("t?publisher=p&number=8", "again")
        #expect(client.received().count == 1)
        client.publish("t?publisher=p&number=10", "later", stream: 5)
        #expect(client.received().first?.contains("publisher: expected 9") == true)
        client.publish("t?publisher=p&number=9", "next", stream: 7)
        broker.commit()
        #expect(client.received().count == 1)
        #expect(broker.shards[0].topics["t"]?.log.end == SequenceNumber(22))
    }

    @Test func numbersOfLostMessagesAreForgotten() throws {
        let broker = try broker(relaxed: true)
        var topic = earlier(11..<21, relaxed: true, lost: true)
        let key = PublisherKey(user: nil, id: "p").bytes
        topic.publishers = [StoredPublisher(key: key, number: 8, sequence: 20, usedAt: broker.now.wall)]
        restore(broker, topic)
        #expect(broker.store.publishers.first?.removed == [key])
        let client = broker.connect()
        client.publish("t?publisher=p&number=9", "a")
        #expect(client.received().first?.contains("publisher: unknown, start at 1") == true)
    }

    @Test func fewSearchesAreInFlight() throws {
        let broker = try broker()
        restore(broker, earlier(11..<21))
        let clients = (0..<200).map { _ in broker.connect() }
        for client in clients { client.subscribe("t?since=2020-09-13T12:00:00Z&meta=on") }
        #expect(broker.store.searches.count == TimeSearch.mostForSubscriptions)
        for client in clients[..<199] { client.cancel() }
        broker.find(15)
        #expect(
            broker.store.searches.count == TimeSearch.mostForSubscriptions, "those that were cancelled are passed over")
        for _ in 0..<TimeSearch.mostForSubscriptions { broker.find(15) }
        #expect(broker.store.searches.isEmpty)
        #expect(broker.reads.map { $0.request.first.value } == [15])
    }

    @Test func fewTopicsSearchForOldMessagesAtATime() throws {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        limits.retainAge = 60 * Limits.second
        let broker = TestBroker(limits: limits)
        let topics = (0..<400).map { number in
            var topic = earlier(11..<21, epoch: UInt64(1000 + number))
            topic.row.name = "t\(number)"
            topic.row.id = StoreID(UInt64(number))
            return topic
        }
        broker.shards[0].restore(topics, now: broker.now)
        broker.advance(seconds: 3)
        #expect(broker.store.searches.count == TimeSearch.mostForTopics)
        for _ in 0..<TimeSearch.mostForTopics { broker.find(15) }
        #expect(broker.store.searches.count == 400 - TimeSearch.mostForTopics, "the others")
    }

    @Test func numbersOfRelaxedTopicsAreSavedAgain() throws {
        let broker = try broker(relaxed: true)
        broker.connect().publish("t?publisher=p&number=1", "a")
        #expect(broker.store.publishers.count == 1)
        broker.refuse(.full)
        broker.advance(seconds: 1)
        #expect(broker.store.publishers.last?.changed.map(\.number) == [1])
        #expect(broker.store.publishers.count == 2)
    }

    /// The store refuses a topic's first messages, and the row that came with them; its end comes later.
    @Test func theEndOfATopicThatTheStoreMayNotKnowHasItsRow() throws {
        let broker = try broker()
        let client = broker.connect()
        client.publish("t", "a")
        client.publish("$SYS.topic.complete?name=t", "", stream: 5)
        #expect(broker.store.rows.map(\.end) == [nil, .completed])
    }

    @Test func aNewEpochIsStoredWithItsFirstMessages() throws {
        let broker = try broker(relaxed: true)
        restore(broker, earlier(11..<21, relaxed: true, lost: true))
        let client = broker.connect()
        client.publish("t", "a")
        #expect(broker.store.rows.count == 2, "the first may have been refused")
        #expect(Set(broker.store.rows.map(\.epoch)).count == 1)
        broker.commit()
        client.publish("t", "b", stream: 5)
        #expect(broker.store.rows.count == 2)
    }

    @Test func numbersAreNotStoredWithoutTheirMessages() throws {
        let broker = try broker()
        let client = broker.connect()
        client.publish("t?publisher=p&number=1", "a")
        client.publish("t?publisher=p&number=1", "a", stream: 5)
        #expect(broker.store.publishers.count == 1, "the message may still be refused")
        broker.commit()
        #expect(broker.store.publishers.count == 2)
    }

    @Test func aChannelLearnsThatTheOutcomeIsUnknown() throws {
        let broker = try broker()
        let (publisher, client) = (broker.connect(), broker.connect())
        publisher.channel("t", "a")
        client.publish("$SYS.topic.complete?name=t", "")
        publisher.items(["b"])
        #expect(!publisher.received().contains { $0.contains("has completed") })
        broker.refuse(.unknown)
        #expect(publisher.received().last?.contains("outcome unknown") == true)
    }

    @Test func messagesThatArriveDuringASearchAreFound() throws {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        limits.resident = 0
        let broker = TestBroker(limits: limits)
        restore(broker, earlier(11..<21))
        let subscriber = broker.connect()
        subscriber.subscribe("t?since=2023-11-14T22:13:20Z&meta=on")
        broker.connect().publish("t", "a")
        broker.commit()
        broker.find(nil)
        #expect(broker.store.searches.count == 1, "the message has left memory")
        broker.find(21)
        #expect(broker.reads.map { $0.request.first.value } == [21])
    }

    @Test func aTimeInTheFutureIsAfterAllMessages() throws {
        let broker = try broker()
        restore(broker, earlier(11..<21))
        let subscriber = broker.connect()
        subscriber.subscribe("t?since=2100-01-01T00:00:00Z&meta=on")
        broker.connect().publish("t", "a")
        broker.commit()
        broker.find(nil)
        #expect(subscriber.received().isEmpty)
        broker.connect().publish("t", "b")
        broker.commit()
        #expect(subscriber.received() == ["1:[22]b"])
    }
}
