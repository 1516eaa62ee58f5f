// Messages that are in a store and no longer in memory: they are delivered when the store returns them, and other
// messages do not wait.

import ForebayWire
import Replay
import Testing

@testable import Core

@Suite struct HistoryTests {
    /// A broker that keeps nothing committed in memory, with the messages 1 to `count` in the topic "t".
    private func broker(_ shards: Int = 1, count: Int = 6, from: Int = 0) throws -> (TestBroker, TestClient) {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        limits.resident = 0
        let broker = TestBroker(shards: shards, limits: limits)
        let publisher = broker.connect(from)
        for number in 1...count { publisher.fireAndForget("t", "\(number)") }
        broker.commit()
        return (broker, publisher)
    }

    @Test(arguments: DeliveryTests.placements)
    func joinersAreReplayedFromTheStore(_ shards: Int, _ at: Int, _ from: Int) throws {
        let (broker, publisher) = try broker(shards, from: from)
        let (joiner, live) = (broker.connect(at), broker.connect(at))
        live.subscribe("t?meta=off")
        joiner.subscribe("t?replay=all&meta=off")
        #expect(joiner.received() == [])
        #expect(broker.reads.count == 1)
        // A subscription that is not behind does not wait for the read.
        publisher.fireAndForget("t", "7")
        broker.commit()
        #expect(live.received() == ["1:7"])
        #expect(joiner.received() == [])
        broker.bring(most: 2)
        #expect(joiner.received() == ["1:1", "1:2"])
        broker.bring()
        while !broker.reads.isEmpty { broker.bring() }
        #expect(joiner.received() == ["1:3", "1:4", "1:5", "1:6", "1:7"])
        publisher.fireAndForget("t", "8")
        broker.commit()
        while !broker.reads.isEmpty { broker.bring() }
        #expect(joiner.received() == ["1:8"])
        #expect(live.received() == ["1:8"])
    }

    @Test func onlyWhatIsAskedForIsRead() throws {
        let (broker, _) = try broker()
        let joiner = broker.connect()
        joiner.subscribe("t?replay=all&meta=off", n: 2)
        #expect(broker.reads.map { $0.request.end.value } == [3])
        broker.bring()
        #expect(joiner.received() == ["1:1", "1:2"])
        #expect(broker.reads.isEmpty)
        joiner.requestN(1)
        broker.bring()
        #expect(joiner.received() == ["1:3"])
    }

    @Test func oneReadServesAllWhoWaitForIt() throws {
        let (broker, _) = try broker()
        let joiners = (0..<200).map { _ in broker.connect() }
        for joiner in joiners { joiner.subscribe("t?replay=all&meta=off") }
        #expect(broker.reads.count == 1)
        broker.bring()
        #expect(broker.reads.isEmpty)
        for joiner in joiners { #expect(joiner.received() == (1...6).map { "1:\($0)" }) }
    }

    @Test func answersMayComeInAnyOrder() throws {
        let (broker, _) = try broker(count: 40)
        let joiners = (0..<8).map { _ in broker.connect() }
        for (place, joiner) in joiners.enumerated() { joiner.subscribe("t?replay=\(40 - 5 * place)&meta=off", n: 3) }
        #expect(broker.reads.count == History.most)
        broker.answerLast()
        while !broker.reads.isEmpty { broker.answerLast() }
        for (place, joiner) in joiners.enumerated() {
            #expect(joiner.received() == (1...3).map { "1:\(5 * place + $0)" })
        }
    }

    @Test func onlyTheLatestPiecesAreKept() {
        var history = History()
        func insert(_ first: UInt64, most: Int) {
            let chunk = Chunk(
                first: SequenceNumber(first), hasMetadata: false, capacity: Chunk.smallest,
                budget: MemoryBudget(limit: 1 << 20))
            history.insert(LogPiece(chunk: chunk, visible: 1), most: most)
        }
        for first in 1...10 as ClosedRange<UInt64> { insert(first, most: History.most) }
        #expect(history.pieces.map(\.first.value) == [7, 8, 9, 10])
        insert(11, most: 1)
        #expect(history.pieces.map(\.first.value) == [11])
    }

    @Test func whatIsGoneIsLost() throws {
        let (broker, _) = try broker()
        let (joiner, failing) = (broker.connect(), broker.connect())
        joiner.subscribe("t?replay=all&meta=on")
        failing.subscribe("t?replay=all&meta=on&overflow=fail")
        broker.miss { _ in .gone(before: .init(3)) }
        broker.bring()
        #expect(failing.received().last?.contains("overflow") == true)
        #expect(joiner.received() == ["1:[3-2]3", "1:[4]4", "1:[5]5", "1:[6]6"])
    }

    @Test func whatCannotBeReadIsLostByThoseWhoWaitForIt() throws {
        let (broker, _) = try broker()
        let (first, second) = (broker.connect(), broker.connect())
        first.subscribe("t?replay=all&meta=on", n: 2)
        second.subscribe("t?replay=1&meta=on")
        broker.miss { .unreadable(before: $0.first.advanced(by: 1)) }
        while !broker.reads.isEmpty { broker.bring() }
        #expect(first.received() == ["1:[2-1]2", "1:[3]3"])
        #expect(second.received() == ["1:[6]6"])
    }

    @Test func whoLeavesIsForgotten() throws {
        let (broker, publisher) = try broker()
        let joiner = broker.connect()
        joiner.subscribe("t?replay=all&meta=off")
        joiner.cancel()
        broker.bring()
        #expect(joiner.received() == [])
        joiner.subscribe("t?replay=1&meta=off", stream: 3)
        weak let view = broker.shards[0].views["t"]
        #expect(view != nil)
        joiner.disconnect()
        broker.miss { .gone(before: $0.end) }
        publisher.publish("$SYS.topic.delete?name=t", "", stream: 7)
        broker.advance(seconds: 1)
        #expect(view == nil)
    }

    @Test func theStoreKeepsWhatIsRetainedOrWaitedFor() throws {
        var limits = Limits()
        limits.durable = [try TopicPattern(parsing: ">")]
        (limits.resident, limits.retain) = (0, 2)
        let broker = TestBroker(limits: limits)
        let (publisher, slow) = (broker.connect(), broker.connect())
        slow.subscribe("t?meta=off", n: 1)
        for number in 1...9 { publisher.fireAndForget("t", "\(number)") }
        broker.commit()
        let topic = try #require(broker.shards[0].topics["t"])
        #expect((topic.retained.value, topic.window.oldest.value) == (8, 2))
        #expect(topic.log.memory == 0)
        slow.requestN(100)
        while !broker.reads.isEmpty { broker.bring(most: 3) }
        #expect(slow.received() == (1...9).map { "1:\($0)" })
        #expect(topic.window.oldest.value == 8)
        #expect(broker.trimmed == 8)
    }
}
