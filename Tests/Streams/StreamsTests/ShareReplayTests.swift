// Rows 5 and 6 of the library's guarantees: shareReplay, with and without limited demand.

import Foundation
import Streams
import StreamsTestSupport
import Testing

struct Oops: Error, Equatable {}

@Suite("shareReplay")
struct ShareReplayTests {
    @Test("row 5: one upstream; the last two values for late subscribers; only the end for those after it")
    func replaysToLateSubscribers() {
        let subject = PassthroughSubject<Int, Oops>()
        nonisolated(unsafe) var subscriptions = 0
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

    @Test("row 6: without demand only the oldest values beyond the capacity are lost, and the end waits for the rest")
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

    @Test("row 6: under block, upstream is asked for what the slowest has room for")
    func blockFollowsTheSlowest() {
        nonisolated(unsafe) var asked = 0
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

    @Test("row 6: cancelled subscribers are released, and so is upstream when none is left")
    func releases() {
        final class Marker: Sendable {}
        weak var marker: Marker?
        weak var source: PassthroughSubject<Int, Oops>?
        nonisolated(unsafe) var cancelled = 0
        var held: Recorder<Int, Oops>?
        do {
            let subject = PassthroughSubject<Int, Oops>()
            source = subject
            let shared = subject.handleEvents(receiveCancel: { cancelled += 1 }).shareReplay(capacity: 2)
            let object = Marker()
            marker = object
            let closure = shared.sink(receiveCompletion: { _ in }, receiveValue: { _ in _ = object })
            held = shared.record()
            subject.send(1)
            closure.cancel()
        }
        #expect(marker == nil && source != nil && cancelled == 0)
        held?.cancel()
        #expect(cancelled == 1 && source == nil)
        #expect(held?.values == [1])
    }

    @Test("row 6: request and cancel from within receive")
    func reentrant() {
        let subject = PassthroughSubject<Int, Never>()
        let shared = subject.shareReplay(capacity: 10)
        let asking = shared.record(demand: .max(1))
        asking.onValue = { recorder, _ in
            recorder.request(.max(1))
            return .none
        }
        let leaving = shared.record(demand: .unlimited)
        leaving.onValue = { recorder, value in
            if value == 2 { recorder.cancel() }
            return .none
        }
        let sending = shared.record(demand: .unlimited)
        sending.onValue = { _, value in
            if value < 5 { subject.send(value + 1) }
            return .none
        }
        subject.send(1)
        subject.send(completion: .finished)
        #expect(asking.events == (1...5).asEvents(completion: .finished))
        #expect(leaving.events == [1, 2].asEvents())
        #expect(sending.events == (1...5).asEvents(completion: .finished))
    }

    @Test("row 6: no lock is held while a subscriber is called: another thread is not blocked")
    func noLockWhileCalling() {
        let subject = PassthroughSubject<Int, Never>()
        let shared = subject.shareReplay(capacity: 4)
        let first = shared.record()
        let slow = shared.record(demand: .none)
        let done = DispatchSemaphore(value: 0)
        let late = Recorder<Int, Never>(demand: .unlimited)
        first.onValue = { _, value in
            guard value == 1 else { return .none }
            Thread.detachNewThread {
                shared.subscribe(late)
                slow.request(.max(1))
                slow.cancel()
                subject.send(2)
                done.signal()
            }
            #expect(done.wait(timeout: .now() + 20) == .success)
            return .none
        }
        subject.send(1)
        #expect(first.values == [1, 2] && late.values == [1, 2] && slow.values == [1])
    }

    @Test("a subscriber cancelled by another during the delivery of a value does not receive it")
    func cancelledByAnother() {
        let subject = PassthroughSubject<Int, Never>()
        let shared = subject.shareReplay(capacity: 10)
        let first = shared.record()
        let second = shared.record()
        first.onValue = { _, _ in
            second.cancel()
            return .none
        }
        subject.send(1)
        #expect(first.values == [1] && second.events == [])
    }

    @Test("no lock is held while a value is released or a failure is created")
    func releasesWithoutLock() {
        final class Value: @unchecked Sendable {
            let onRelease: () -> Void
            init(_ onRelease: @escaping () -> Void) { self.onRelease = onRelease }
            deinit { onRelease() }
        }
        let subject = BufferSubject<Value, Oops>(limit: 1)
        let slow = subject.record(demand: .none)
        var released = 0
        for _ in 0..<3 {
            subject.send(
                Value {
                    released += 1
                    // These calls re-enter the same locks.
                    slow.request(.none)
                    _ = subject.record(demand: .none)
                    if released == 1 { subject.send(Value {}) }
                })
        }
        #expect(released == 2)

        let failing = BufferSubject<Int, Oops>(
            limit: 1,
            whenFull: .customError {
                slow.request(.max(1))
                return Oops()
            })
        let failed = failing.record(demand: .none)
        failing.send(sequence: 1...3)
        failed.request(.max(1))
        #expect(failed.events == [1].asEvents(failure: Oops.self, completion: .failure(Oops())))
    }

    @Test("upstream is asked for the increment of demand, not for the sum", arguments: [1, 3])
    func asksForIncrements(step: Int) {
        nonisolated(unsafe) var asked: [Int] = []
        let shared = (1...).publisher
            .handleEvents(receiveRequest: { asked.append($0.max ?? .max) })
            .shareReplay(capacity: 1, overflow: .block)
        let recorder = shared.record(demand: .none)
        for _ in 0..<10 { recorder.request(.max(step)) }
        #expect(asked.reduce(0, +) == 10 * step + 1)
        #expect(recorder.values == Array(1...10 * step))
    }

    @Test("demand close to the largest number is a number, and no limit is none")
    func largeDemand() {
        let subject = PassthroughSubject<Int, Never>()
        let shared = subject.shareReplay(capacity: 2)
        let recorder = shared.record(demand: .max(.max))
        recorder.request(.max(.max))
        recorder.request(.max(0x7FFF_FFFF))
        subject.send(sequence: 1...100)
        #expect(recorder.values == Array(1...100))
    }
}
