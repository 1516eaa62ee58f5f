// What operators see of stored topics: how they are stored, how large they are in memory and in the store, what waits
// to be written, and why publishers wait.

import Replay
import Testing

@testable import Core

@Suite struct StorageStatisticsTests {
    private func broker(relaxed: Bool = false, _ change: (inout Limits) -> Void = { _ in }) throws -> TestBroker {
        var limits = Limits()
        let pattern = [try TopicPattern(parsing: "t")]
        if relaxed { limits.relaxed = pattern } else { limits.durable = pattern }
        change(&limits)
        return TestBroker(limits: limits)
    }

    private func survey(_ broker: TestBroker) throws -> SurveyPart {
        let survey = Survey(.topics, most: 100, order: .name)
        guard case .survey(let part) = broker.ask(.survey(survey)) else {
            throw Missing()
        }
        return part
    }

    private func topic(_ broker: TestBroker, _ name: String = "t") throws -> TopicStatistics {
        try #require(try survey(broker).topics.first { $0.name == name })
    }

    private struct Missing: Error {}
    private let charge = Limits.messageOverhead + 1

    @Test func aTopicInMemoryHasNoFieldsOfAStore() throws {
        let broker = try broker()
        broker.connect().fireAndForget("other", "a")
        let topic = try topic(broker, "other")
        #expect(topic.storage.storage == .memory && topic.storage.resident == charge && topic.bytes == charge)
        #expect(topic.json.contains("\"storage\":\"memory\",\"subscriptions\""))
        #expect(!topic.json.contains("publishers_wait_for"))
        let sums = try survey(broker).topicSums
        #expect(sums.durable == 0 && sums.relaxed == 0)
    }

    @Test(arguments: [false, true])
    func whatIsNotWrittenIsCounted(relaxed: Bool) throws {
        let broker = try broker(relaxed: relaxed)
        let client = broker.connect()
        for text in ["a", "b", "c"] { client.fireAndForget("t", text) }
        var topic = try topic(broker)
        #expect(topic.storage.storage == (relaxed ? .relaxed : .durable))
        #expect(topic.storage.uncommitted == 3 && topic.storage.uncommittedBytes == 3 * charge)
        #expect(topic.bytes == 3 * charge && topic.storage.resident == 3 * charge)
        #expect(topic.retained == (relaxed ? 3 : 0))
        broker.commit(upTo: 3)
        topic = try self.topic(broker)
        #expect(topic.storage.uncommitted == 1 && topic.storage.uncommittedBytes == charge)
        broker.commit()
        topic = try self.topic(broker)
        #expect(topic.storage.uncommitted == 0 && topic.storage.uncommittedBytes == 0 && topic.bytes == 3 * charge)
        #expect(
            topic.json.contains(
                "\"storage\":\"\(relaxed ? "relaxed" : "durable")\",\"resident_bytes\":\(3 * charge),"
                    + "\"uncommitted\":0,\"uncommitted_bytes\":0"))
        let sums = try survey(broker).topicSums
        #expect((sums.durable, sums.relaxed) == (relaxed ? (0, 1) : (1, 0)))
    }

    @Test func aRestartDoesNotMakeATopicSmaller() throws {
        let broker = try broker()
        let earlier = StoredTopic(
            row: StoredTopicRow(id: StoreID(5), name: "t", epoch: 77, isRelaxed: false),
            messages: SequenceRange(lower: SequenceNumber(11), upper: SequenceNumber(21)), charged: 650...1300,
            lastTimestamp: 1_600_000_000_000_000_000, mayHaveLost: false)
        broker.shards[0].restore([earlier], now: broker.now)
        broker.run()
        let topic = try topic(broker)
        #expect(topic.retained == 10 && topic.bytes == 650 && topic.storage.resident == 0)
        #expect(topic.rank(by: .bytes).first == 650)
        // The size grows and shrinks with what is published and evicted.
        broker.connect().fireAndForget("t", "a")
        broker.commit()
        #expect(try self.topic(broker).bytes == 650 + charge)
    }

    @Test func aTopicThatIsUnloadedKeepsItsSize() throws {
        let broker = try broker { $0.resident = 0 }
        let client = broker.connect()
        for number in 0..<20 { client.fireAndForget("t", String(number % 10)) }
        broker.commit()
        let topic = try topic(broker)
        #expect(topic.bytes == 20 * charge && topic.storage.resident == 0)
    }

    @Test func publishersWaitForTheStore() throws {
        let broker = try broker { $0.uncommitted = 2 }
        let publisher = broker.connect()
        for number in 1...3 { publisher.publish("t", "a", stream: UInt32(2 * number + 1)) }
        var topic = try topic(broker)
        #expect(topic.blockedPublishers == 1 && topic.waitFor == .store)
        #expect(topic.json.contains("\"publishers_wait_for\":\"store\""))
        #expect(try survey(broker).topicSums.waitingForStore == 1)
        broker.advance(seconds: Double(broker.limits.parkTime / Limits.second) + 1)
        #expect(publisher.received().last?.contains("the store has not written earlier messages") == true)
        broker.commit()
        topic = try self.topic(broker)
        #expect(topic.blockedPublishers == 0 && topic.waitFor == nil)
    }

    @Test func publishersWaitForASubscription() throws {
        let broker = try broker()
        broker.connect().subscribe("t?overflow=block&buffer=1", n: 1)
        let publisher = broker.connect()
        for number in 1...4 {
            publisher.publish("t", "a", stream: UInt32(2 * number + 1))
            broker.commit()
        }
        #expect(try topic(broker).waitFor == .subscription)
        #expect(try survey(broker).topicSums.waitingForStore == 0)
    }

    @Test func aRefusalByTheStoreIsAShortage() throws {
        let broker = try broker()
        let publisher = broker.connect()
        publisher.publish("t", "a")
        broker.refuse(.full)
        let counters = broker.shards[0].counters
        #expect(counters.publishesRefused[.store] == 1 && counters.lost(to: .store) == 1 && counters.lost == 1)
        #expect(try topic(broker).lost(to: .store) == 1)
    }

    @Test func everyStatisticSaysThatTheStoreHasFailed() throws {
        let broker = try broker()
        let watcher = broker.connect()
        watcher.subscribe("$SYS.stats")
        broker.advance(seconds: 2)
        #expect(watcher.received().allSatisfy { !$0.contains("store_failed") })
        broker.storeHealth.note(.unknown, now: broker.now.monotonic)
        broker.advance(seconds: 2)
        #expect(watcher.received().contains { $0.contains("\"store_failed\":true") })
    }
}
