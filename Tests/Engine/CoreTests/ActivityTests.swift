// The activity of topics, and the busiest of them, compared with sorting all of them.

import Testing

@testable import Core

@Suite struct ActivityTests {
    private let second: UInt64 = 1_000_000_000

    @Test func messagesCountForHalfAfterAMinute() {
        var (early, late) = (Activity(madeAt: 0), Activity(madeAt: 0))
        func note(_ activity: inout Activity, _ published: UInt64, at seconds: UInt64) -> Bool {
            activity.note(published: published, now: seconds * second)
        }
        #expect(note(&early, 1000, at: 1) && note(&late, 600, at: 61))
        #expect(late.order > early.order && late.isClearlyBusier(than: early))
        #expect(!note(&early, 1000, at: 62), "nothing new")
        let before = early.order
        #expect(note(&early, 1200, at: 61) && early.order > before && early.order > late.order)
    }

    @Test func aMonthOfMessagesIsNothingSpecial() {
        var (often, seldom) = (Activity(madeAt: 0), Activity(madeAt: 0))
        for hour in 1...720 {
            _ = often.note(published: UInt64(hour * 1000), now: UInt64(hour) * 3600 * second)
            _ = seldom.note(published: UInt64(hour), now: UInt64(hour) * 3600 * second)
        }
        #expect(often.weight.isFinite && often.weight - seldom.weight > 9.9 && often.weight - seldom.weight < 10)
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func theBusiestAreKeptAsTheyChange(seed: UInt64) throws {
        let broker = TestBroker()
        let client = broker.connect()
        var random = LedgerRandom(state: seed)
        let count = BusiestTopics.most + 500
        var stream: UInt32 = 1
        for round in 0..<3000 {
            // Each topic has a different rate; some are removed.
            let number = random.next(random.next(count) + 1)
            client.fireAndForget("t\(number)", "x", stream: stream)
            stream += 2
            if round % 100 == 99 {
                client.publish("$SYS.topic.delete?name=t\(random.next(50))", "", stream: stream)
                stream += 2
                broker.advance(seconds: 1)
                _ = client.received()
            }
        }
        for number in 0..<count {
            client.fireAndForget("t\(number)", "x", stream: stream)
            stream += 2
        }
        let shard = broker.shards[0]
        let kept = shard.topics.busiest.topics
        #expect(kept.count == BusiestTopics.most && Set(kept.map(\.name)).count == kept.count)
        #expect(kept.enumerated().allSatisfy { $0.element.busyPlace == $0.offset })
        #expect(kept.allSatisfy { shard.topics[$0.name] != nil })
        let least = try #require(kept.map(\.activity.weight).min())
        #expect(kept[0].activity.weight == least)
        let others = shard.topics.all.filter { $0.busyPlace < 0 }
        #expect(others.count == shard.topics.namedCount - kept.count && others.count > 300)
        #expect(!others.contains { $0.activity.isClearlyBusier(than: kept[0].activity) })
    }
}
