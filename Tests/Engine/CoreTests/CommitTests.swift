// Stored topics: before a message is committed, nobody sees it and nothing is acknowledged.

import ForebayWire
import Testing

@testable import Core

@Suite struct CommitTests {
    private func broker(_ shards: Int = 1, uncommitted: Int = 100) throws -> TestBroker {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        limits.uncommitted = uncommitted
        return TestBroker(shards: shards, limits: limits)
    }

    @Test(arguments: DeliveryTests.placements)
    func nothingIsSeenOrAcknowledgedBefore(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let (subscriber, publisher) = (broker.connect(at), broker.connect(from))
        subscriber.subscribe("t?meta=off")
        publisher.publish("t", "a")
        publisher.publish("t", "b", stream: 7)
        publisher.fireAndForget("t", "c")
        #expect(subscriber.received() + publisher.received() == [])
        broker.commit(upTo: 2)
        #expect(subscriber.received() == ["1:a"])
        #expect(publisher.received().map { $0.prefix(2) } == ["3:"])
        broker.commit()
        #expect(subscriber.received() == ["1:b", "1:c"])
        #expect(publisher.received().map { $0.prefix(2) } == ["7:"])
    }

    @Test(arguments: DeliveryTests.placements)
    func joinersSeeWhatIsCommitted(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let publisher = broker.connect(from)
        for text in ["a", "b", "c"] { publisher.fireAndForget("t", text) }
        broker.commit(upTo: 3)
        let (joiner, second) = (broker.connect(at), broker.connect(from))
        joiner.subscribe("t?replay=all&meta=on")
        second.subscribe("t?replay=1&meta=on")
        #expect(joiner.received() == ["1:[1]a", "1:[2]b"])
        #expect(second.received() == ["1:[2]b"])
        broker.commit()
        #expect(joiner.received() == ["1:[3]c"])
        #expect(second.received() == ["1:[3]c"])
    }

    @Test(arguments: DeliveryTests.placements)
    func channelsHearHowFarTheyAreCommitted(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let (subscriber, publisher) = (broker.connect(at), broker.connect(from))
        subscriber.subscribe("t?meta=off")
        publisher.channel("t?complete=true", "a")
        publisher.items(["b", "c"])
        publisher.complete()
        _ = publisher.received()
        broker.commit(upTo: 3)
        #expect(publisher.received().count == 1)
        #expect(subscriber.received() == ["1:a", "1:b"])
        broker.commit()
        // The end of the channel, which is also the end of the topic, has to be committed after the last message.
        #expect(publisher.received().count == 1)
        #expect(subscriber.received() == ["1:c"])
        broker.commit()
        #expect(publisher.received().last?.hasSuffix("|") == true)
        #expect(subscriber.received() == ["1:|"])
    }

    @Test(arguments: DeliveryTests.placements)
    func endsComeBehindWhatWasAppended(_ shards: Int, _ at: Int, _ from: Int) throws {
        let broker = try broker(shards)
        let (subscriber, publisher) = (broker.connect(at), broker.connect(from))
        subscriber.subscribe("t?meta=off")
        publisher.channel("t", "a")
        _ = publisher.received()
        broker.connect(from).publish("$SYS.topic.complete?name=t", "")
        #expect(subscriber.received() == [])
        #expect(publisher.received() == [])
        // Later items are refused, and are not appended to the log.
        publisher.items(["b"])
        let late = broker.connect(from)
        late.publish("t", "c")
        let refusal = late.received().first ?? ""
        // The end may still be refused, for example because the disk is full.
        #expect(refusal.contains("store: ") && refusal.contains("is ending"), "\(refusal)")
        late.publish("$SYS.topic.info?name=t", "", stream: 7)
        #expect(late.received().first?.contains("\"state\":\"live\"") == true)
        broker.commit()
        #expect(subscriber.received() == ["1:a", "1:|"])
        let heard = publisher.received()
        #expect(heard.count == 2 && heard[1].contains("is ending"), "\(heard)")
        #expect(broker.appended.joined().isEmpty)
        late.publish("t", "c", stream: 9)
        #expect(late.received().first?.contains("ended: ") == true)
        late.publish("$SYS.topic.info?name=t", "", stream: 11)
        #expect(late.received().first?.contains("\"state\":\"completed\"") == true)
    }

    @Test func theListenersCallIsAnsweredOnceTheStoreHasTheEnd() throws {
        for (failure, answer) in [(nil, "done"), (StoreFailure.unknown, "refused")] {
            let broker = try broker()
            broker.connect().publish("t", "a")
            broker.commit()
            #expect(broker.ask(.control(try ControlRequest(.complete, topic: "t"))) == nil)
            if let failure {
                let epoch = try #require(broker.shards[0].topics["t"]).epoch
                broker.shards[0].stored([.endRefused(topic: epoch, failure)], now: broker.now)
                broker.run()
            } else {
                broker.commit()
            }
            #expect(broker.answers.count == 1)
            #expect("\(broker.answers[0].answer)".hasPrefix(answer))
        }
    }

    @Test func aDeletedTopicIsThereUntilItIsCommitted() throws {
        let broker = try broker()
        let (subscriber, publisher) = (broker.connect(), broker.connect())
        publisher.publish("t", "a")
        subscriber.subscribe("t?replay=all&meta=off")
        publisher.publish("$SYS.topic.delete?name=t", "", stream: 7)
        publisher.publish("t", "b", stream: 9)
        broker.commit()
        #expect(subscriber.received().first == "1:a")
        #expect(publisher.received().count == 3)
        #expect(broker.shards[0].topics.count == broker.shards[0].topics.namedCount)
    }

    @Test func publishersWaitWhereTooMuchIsNotCommitted() throws {
        let broker = try broker(uncommitted: 2)
        let (subscriber, publisher) = (broker.connect(), broker.connect())
        subscriber.subscribe("t?meta=off")
        for text in ["a", "b", "dropped"] { publisher.fireAndForget("t", text) }
        publisher.publish("t", "c")
        broker.commit(upTo: 2)
        #expect(subscriber.received() == ["1:a"])
        #expect(publisher.received() == [])
        broker.commit()
        #expect(subscriber.received() == ["1:b", "1:c"])
        #expect(publisher.received().count == 1)
    }

    @Test func whatIsNotCommittedIsNotGivenUp() throws {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        (limits.retain, limits.retainBytes) = (1, 3000)
        let broker = TestBroker(limits: limits)
        let (subscriber, publisher) = (broker.connect(), broker.connect())
        subscriber.subscribe("t?meta=off")
        for number in 1...100 { publisher.fireAndForget("t", "\(number)") }
        let log = try #require(broker.shards[0].topics["t"]?.log)
        let taken = log.end.value - 1
        #expect(log.head.value == 1 && log.bytes <= 3000 && taken > 1 && taken < 100)
        broker.commit()
        #expect(subscriber.received() == (1...taken).map { "1:\($0)" })
        #expect(log.head == log.end.advanced(by: -1))
    }

    /// The store reports both at once, after which the topic is gone.
    @Test func aTopicMayBeGoneAsSoonAsItsMessagesAreCommitted() throws {
        let broker = try broker()
        let client = broker.connect()
        client.publish("t", "a")
        client.publish("$SYS.topic.delete?name=t", "", stream: 5)
        let last = broker.appended[0][0]
        broker.shards[0].stored(
            [.committed(topic: last.topic, attempt: 0, upTo: last.end), .ended(topic: last.topic)], now: broker.now)
        broker.run()
        #expect(client.received().count == 2)
        #expect(broker.store.purged.count == 1)
    }

    @Test func aDeletionIsStoredBeforeTheNextTopicOfThatName() throws {
        let broker = try broker()
        let client = broker.connect()
        client.publish("t", "a")
        broker.commit()
        client.publish("$SYS.topic.delete?name=t", "", stream: 5)
        client.publish("t", "b", stream: 7)
        #expect(broker.store.rows.count == 2)
        #expect(broker.store.deleted.count == 2, "the first may have been refused")
        broker.commit()
        client.publish("t", "c", stream: 9)
        #expect(broker.store.deleted.count == 2)
    }
}
