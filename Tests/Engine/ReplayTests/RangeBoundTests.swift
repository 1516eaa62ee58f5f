// The limit on the number of ranges that `drop-newest` and `replace-newest` may leave: its effect on single messages
// and on batches of every size.

import ForebayWire
import Testing

@testable import Replay

struct RangeBoundTests {
    /// A subscription and its model. Messages are appended as one batch to the former, singly to the latter.
    struct Pair: ~Copyable {
        var subscription: Subscription
        var model: NaiveSubscription
        var end: UInt64

        init(_ policy: Overflow, buffer: Int, retained: Range<UInt64> = 1..<1) {
            subscription = Subscription(
                start: .all, window: window(retained), buffer: buffer, overflow: policy, credit: credit(0))
            model = NaiveSubscription(
                start: .all, retained: retained, buffer: buffer, policy: policy, mode: .outstanding)
            end = retained.upperBound
        }

        mutating func append(_ count: Int) {
            end += UInt64(count)
            subscription.appended(upTo: sequence(end))
            subscription.applyPolicy()
            for _ in 0..<count {
                model.arrive()
                model.applyPolicy()
            }
        }

        mutating func deliver(_ count: Int) {
            _ = (subscription.request(UInt32(count)), model.request(UInt32(count)))
            var room = Int.max
            let got = subscription.flush(room: &room)
            #expect(got == (0..<count).compactMap { _ in model.deliverOne() })
        }

        /// Delivers one message and appends two, `times` times: each time adds a range.
        mutating func tear(_ times: Int) {
            for _ in 0..<times {
                deliver(1)
                append(2)
            }
        }

        func compare(_ at: SourceLocation = #_sourceLocation) {
            #expect(subscription.waiting == model.waiting.count, sourceLocation: at)
            #expect(subscription.dropped == model.dropped, sourceLocation: at)
            #expect(subscription.limit == model.limit, sourceLocation: at)
            #expect(subscription.waitingSequences == model.waiting, sourceLocation: at)
        }
    }

    @Test func theSixtyFifthIsRefused() {
        var pair = Pair(.dropNewest, buffer: 100)
        pair.append(101)
        pair.tear(63)
        pair.compare()
        #expect(pair.model.refusedForRanges == 0)
        #expect(pair.subscription.waiting == 100)

        // There is room for a message, but not for another range.
        let before = pair.subscription.dropped
        pair.tear(1)
        #expect(pair.subscription.waiting == 99)
        #expect(pair.subscription.dropped == before + 2)
        #expect(pair.model.refusedForRanges == 2)
        pair.compare()

        // The first range holds the rest of 1...100; once it is gone, a new range may begin.
        pair.deliver(pair.subscription.waiting - 63)
        pair.append(3)
        #expect(pair.subscription.waiting == 66)
        #expect(pair.model.refusedForRanges == 2)
        pair.compare()
    }

    @Test(arguments: 1...25) func theSixtyFifthReplacesTheLast(_ arrivals: Int) {
        var pair = Pair(.replaceNewest, buffer: 100)
        pair.append(100)
        pair.tear(63)
        #expect(pair.model.replacedForRanges == 0)
        // The last range grows to 1 + 6, and the buffer is full.
        pair.deliver(6)
        pair.append(6)
        #expect(pair.subscription.waiting == 100)
        pair.compare()

        pair.append(arrivals)
        pair.compare()
        #expect(pair.model.replacedForRanges == (arrivals + 6) / 7)
        pair.deliver(70)
        pair.append(3)
        pair.compare()
    }

    /// Replacing a long last range of a joiner leaves fewer than `buffer` waiting: the limit decreases within the
    /// batch.
    @Test(arguments: 1...40) func aJoinersLimitSinksWithinABatch(_ arrivals: Int) {
        var pair = Pair(.replaceNewest, buffer: 70, retained: 1..<76)
        pair.append(70)
        pair.tear(63)
        pair.deliver(70)
        pair.append(70)
        pair.deliver(11)
        pair.append(11)
        #expect(pair.subscription.waiting == 145)
        #expect(pair.subscription.limit == 145)
        #expect(pair.model.replacedForRanges == 0)
        pair.append(arrivals)
        #expect(pair.subscription.limit == 70)
        #expect(pair.model.replacedForRanges > 0)
        pair.compare()
    }

    @Test(arguments: Overflow.allCases) func furtherRangesAreKeptOnlyWhereTheyAreNeeded(_ policy: Overflow) {
        var ranges = WaitingRanges(window(5..<9), buffer: 4)
        var end = sequence(9)
        var storage: UnsafeRawPointer?
        for _ in 0..<1000 {
            if !ranges.isEmpty { ranges.removeFirst(1) }
            let unplaced = ranges.admit(SequenceRange(lower: end, upper: end + 3), under: policy)
            // From here on a subscription that fails accepts nothing more.
            if policy == .fail && unplaced > 0 { break }
            end = end + 3
            let now = ranges.ring.isEmpty ? nil : ranges.ring.withUnsafeBytes { $0.baseAddress }
            #expect(storage == nil || storage == now)
            storage = now
        }
        #expect((storage != nil) == (policy == .dropNewest || policy == .replaceNewest))
        #expect(ranges.ring.count == (storage == nil ? 0 : Subscription.maxRanges - 1))
    }
}
