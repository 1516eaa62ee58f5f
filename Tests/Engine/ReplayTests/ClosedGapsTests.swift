// The result of `closeGaps`: the same messages, identified only by their order, in one range just below the next one.

import ForebayWire
import Testing

@testable import Replay

struct ClosedGapsTests {
    /// A subscription whose waiting messages are split into several ranges: for each message delivered, one of two
    /// arrivals finds room.
    private func torn(_ policy: Overflow, _ times: Int, end: inout UInt64) -> Subscription {
        var subscription = Subscription(
            start: .all, window: window(1..<1), buffer: 4, overflow: policy, credit: credit(0))
        for time in 0...times {
            if time > 0 {
                _ = subscription.request(1)
                var room = Int.max
                let gone = subscription.flush(room: &room)
                #expect(gone.count == 1)
            }
            end += time > 0 ? 2 : 6
            subscription.appended(upTo: sequence(end))
            subscription.applyPolicy()
        }
        return subscription
    }

    private func drain(_ subscription: consuming Subscription) -> [Delivery] {
        var room = Int.max
        _ = subscription.request(Credit.unbounded)
        return subscription.flush(room: &room)
    }

    @Test(arguments: [Overflow.dropNewest, .replaceNewest]) func whatWaitsLiesJustBelowTheNextOne(_ policy: Overflow) {
        var end: UInt64 = 1
        let before = drain(torn(policy, 3, end: &end))
        #expect(before.map(\.sequence) != Array(end - 4..<end), "there are gaps")
        end = 1
        var subscription = torn(policy, 3, end: &end)
        let (waiting, dropped, limit) = (subscription.waiting, subscription.dropped, subscription.limit)
        subscription.closeGaps()
        #expect(subscription.waiting == waiting && subscription.dropped == dropped && subscription.limit == limit)
        #expect(subscription.cursor == sequence(end - 4))
        #expect(subscription.newestWaiting == sequence(end - 1))
        let after = drain(subscription)
        #expect(after.map(\.sequence) == Array(end - 4..<end))
        // All losses are reported with the first message, and no more than occurred.
        #expect(after[0].droppedBefore == dropped)
        #expect(after.dropFirst().allSatisfy { $0.droppedBefore == 0 })
    }

    /// The ranges are free again: their limit is never reached.
    @Test(arguments: [Overflow.dropNewest, .replaceNewest]) func theBoundOnRangesIsNeverMet(_ policy: Overflow) {
        var end: UInt64 = 1
        var subscription = torn(policy, 0, end: &end)
        for step in 0..<(3 * Subscription.maxRanges) {
            _ = subscription.request(1)
            var room = Int.max
            #expect(subscription.flush(room: &room).count == 1)
            end += 2
            subscription.appended(upTo: sequence(end))
            subscription.applyPolicy()
            #expect(subscription.waiting == 4, "step \(step)")
            subscription.closeGaps()
            #expect(subscription.cursor == sequence(end - 4) && subscription.newestWaiting == sequence(end - 1))
        }
    }

    @Test(arguments: [Overflow.dropNewest, .replaceNewest, .dropOldest, .latest, .fail])
    func nothingHappensWhereThereIsNoGap(_ policy: Overflow) {
        func drained(closing: Bool) -> [Delivery] {
            var subscription = Subscription(
                start: .all, window: window(1..<1), buffer: 4, overflow: policy, credit: credit(0))
            if closing { subscription.closeGaps() }
            #expect(subscription.waiting == 0 && subscription.newestWaiting == nil)
            subscription.appended(upTo: sequence(4))
            subscription.applyPolicy()
            if closing { subscription.closeGaps() }
            return drain(subscription)
        }
        #expect(drained(closing: true) == drained(closing: false))
        #expect(drained(closing: true).last?.sequence == 3)
    }
}

struct NewestWaitingTests {
    /// The newest waiting message, which is not always the newest of the topic.
    @Test(
        arguments: [
            (Overflow.dropOldest, 9), (.dropNewest, 3), (.replaceNewest, 9), (.latest, 9), (.fail, 3),
        ] as [(Overflow, UInt64)])
    func itIsTheLastThatFoundRoom(_ policy: Overflow, _ newest: UInt64) {
        var subscription = Subscription(
            start: .all, window: window(1..<1), buffer: 3, overflow: policy, credit: credit(0))
        #expect(subscription.newestWaiting == nil)
        for end in 2...10 as ClosedRange<UInt64> {
            subscription.appended(upTo: sequence(end))
            let before = subscription.newestWaiting
            subscription.applyPolicy()
            if policy == .dropNewest, end > 4 { #expect(subscription.newestWaiting == before) }
        }
        #expect(subscription.newestWaiting == sequence(newest))
        _ = subscription.request(Credit.unbounded)
        var room = Int.max
        #expect(subscription.flush(room: &room).last?.sequence == newest)
        #expect(subscription.newestWaiting == nil, "nothing waits any more")
    }

    @Test func whatIsPendingDoesNotWait() {
        var subscription = Subscription(
            start: .all, window: window(1..<3), buffer: 8, overflow: .dropOldest, credit: credit(0))
        #expect(subscription.newestWaiting == sequence(2))
        subscription.appended(upTo: sequence(5))
        #expect(subscription.newestWaiting == sequence(2))
        subscription.applyPolicy()
        #expect(subscription.newestWaiting == sequence(4))
    }
}
