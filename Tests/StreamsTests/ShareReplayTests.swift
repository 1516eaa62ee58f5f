// Rows 5 and 6 of the library's promises: shareReplay, with and without limited demand.

import Streams
import StreamsTestSupport
import Testing

struct Oops: Error, Equatable {}

@Suite("shareReplay")
struct ShareReplayTests {
    @Test("one upstream; the last two values for who comes late; the end for who comes after it")
    func replaysToLateSubscribers() {
        let subject = PassthroughSubject<Int, Oops>()
        var subscriptions = 0
        let counted = Deferred {
            subscriptions += 1; return subject
        }
        let shared = counted.shareReplay(capacity: 2)
        subject.send(0)
        let first = shared.record()
        subject.send(sequence: 1...3)
        let second = shared.record()
        subject.send(sequence: 4...5, completion: .finished)
        let third = shared.record()
        #expect(first.events == [1, 2, 3, 4, 5].asEvents(failure: Oops.self, completion: .finished))
        #expect(second.events == [2, 3, 4, 5].asEvents(failure: Oops.self, completion: .finished))
        #expect(third.events == [4, 5].asEvents(failure: Oops.self, completion: .finished))
        #expect(subscriptions == 1)
    }

    @Test("without demand only the oldest of more than the capacity is lost, and the end waits for the rest")
    func endWaitsForDemand() {
        let subject = PassthroughSubject<Int, Oops>()
        let shared = subject.shareReplay(capacity: 3)
        let slow = shared.record(demand: .none)
        let fast = shared.record()
        subject.send(sequence: 1...5, completion: .failure(Oops()))
        #expect(slow.events == [])
        #expect(fast.values == [1, 2, 3, 4, 5])
        slow.request(.max(1))
        #expect(slow.values == [3])
        slow.request(.max(2))
        #expect(slow.events == [3, 4, 5].asEvents(failure: Oops.self, completion: .failure(Oops())))
    }

    @Test("under block, upstream is asked for what the slowest has room for")
    func blockFollowsTheSlowest() {
        var asked = 0
        let shared = (1...1000).publisher
            .handleEvents(receiveRequest: { asked += $0.max ?? 1_000_000 })
            .shareReplay(capacity: 4, overflow: .block)
        let slow = shared.record(demand: .none)
        let fast = shared.record()
        #expect(asked == 4 && fast.values == [1, 2, 3, 4])
        slow.request(.max(3))
        #expect(slow.values == [1, 2, 3] && fast.values == Array(1...7))
        slow.cancel()
        #expect(fast.events == Array(1...1000).asEvents(completion: .finished))
    }
}
