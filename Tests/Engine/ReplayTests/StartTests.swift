// Where a subscription begins, what it has missed at its start, and integer overflow.

import ForebayWire
import Replay
import Testing

struct StartTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var start: Start
        var retained: Range<UInt64>
        var policy = Overflow.dropOldest
        var cursor: UInt64
        var waiting: Int
        var missed: UInt64 = 0
        var gap = false
        /// Dropped-before of the first message delivered.
        var before: UInt64 = 0
        var dropped: UInt64 = 0
        var testDescription: String { "\(start) in \(retained), \(policy.name)" }
    }

    static let cases: [Case] = [
        Case(start: .next, retained: 1..<1, cursor: 1, waiting: 0),
        Case(start: .next, retained: 5..<9, cursor: 9, waiting: 0),
        Case(start: .all, retained: 1..<1, cursor: 1, waiting: 0),
        Case(start: .all, retained: 5..<9, cursor: 5, waiting: 4),
        Case(start: .last(0), retained: 5..<9, cursor: 9, waiting: 0),
        Case(start: .last(1), retained: 5..<9, cursor: 8, waiting: 1),
        Case(start: .last(4), retained: 5..<9, cursor: 5, waiting: 4),
        Case(start: .last(5), retained: 5..<9, cursor: 5, waiting: 4),
        Case(start: .last(.max), retained: 5..<9, cursor: 5, waiting: 4),
        Case(start: .last(.max), retained: 9..<9, cursor: 9, waiting: 0),
        Case(start: .from(sequence(5)), retained: 5..<9, cursor: 5, waiting: 4),
        Case(start: .from(sequence(8)), retained: 5..<9, cursor: 8, waiting: 1),
        Case(start: .from(sequence(9)), retained: 5..<9, cursor: 9, waiting: 0),
        Case(start: .from(sequence(10)), retained: 5..<9, cursor: 9, waiting: 0, gap: true),
        Case(start: .from(sequence(.max)), retained: 5..<9, cursor: 9, waiting: 0, gap: true),
        Case(start: .from(sequence(4)), retained: 5..<9, cursor: 5, waiting: 4, missed: 1, gap: true, before: 1),
        Case(start: .from(sequence(1)), retained: 5..<9, cursor: 5, waiting: 4, missed: 4, gap: true, before: 4),
        // No message is numbered 0.
        Case(start: .from(sequence(0)), retained: 5..<9, cursor: 5, waiting: 4, missed: 4, gap: true, before: 4),
        Case(start: .from(sequence(0)), retained: 1..<3, cursor: 1, waiting: 2),
        Case(start: .from(sequence(0)), retained: 1..<1, cursor: 1, waiting: 0),
        Case(start: .from(sequence(0)), retained: 0..<2, cursor: 0, waiting: 2),
        // All messages were evicted.
        Case(start: .from(sequence(3)), retained: 9..<9, cursor: 9, waiting: 0, missed: 6, gap: true, before: 6),

        Case(start: .next, retained: 5..<9, policy: .latest, cursor: 9, waiting: 0),
        Case(start: .all, retained: 5..<9, policy: .latest, cursor: 8, waiting: 1),
        Case(start: .last(3), retained: 5..<9, policy: .latest, cursor: 8, waiting: 1),
        Case(start: .last(0), retained: 5..<9, policy: .latest, cursor: 9, waiting: 0),
        Case(
            start: .from(sequence(5)), retained: 5..<9, policy: .latest, cursor: 8, waiting: 1, before: 3, dropped: 3),
        Case(
            start: .from(sequence(3)), retained: 5..<9, policy: .latest, cursor: 8, waiting: 1, missed: 2, gap: true,
            before: 5, dropped: 3),
        Case(start: .from(sequence(8)), retained: 5..<9, policy: .latest, cursor: 8, waiting: 1),
        Case(start: .from(sequence(9)), retained: 5..<9, policy: .latest, cursor: 9, waiting: 0),
        Case(start: .from(sequence(12)), retained: 5..<9, policy: .latest, cursor: 9, waiting: 0, gap: true),
    ]

    @Test(arguments: cases) func table(_ given: Case) {
        let buffer = 2
        var subscription = Subscription(
            start: given.start, window: window(given.retained), buffer: buffer, overflow: given.policy,
            credit: credit(1))
        #expect(subscription.cursor == sequence(given.cursor))
        #expect(subscription.waiting == given.waiting)
        #expect(subscription.missedAtStart == given.missed)
        #expect(subscription.gapAtStart == given.gap)
        #expect(subscription.joined == sequence(given.retained.upperBound))
        #expect(subscription.dropped == given.dropped)
        #expect(subscription.droppedSinceDelivery == given.before)
        let joinerLimit = given.waiting > buffer ? buffer + given.waiting : buffer
        #expect(subscription.limit == (given.policy == .latest ? 1 : joinerLimit))

        subscription.appended(upTo: sequence(given.retained.upperBound + 1))
        #expect(subscription.deliverable.lower == sequence(given.cursor))
        #expect(subscription.deliverable.count == 1)
        #expect(subscription.droppedBeforeNext == given.before)
        subscription.handOver(1)
        #expect(subscription.droppedSinceDelivery == 0)
        #expect(subscription.delivered == 1)
    }

    @Test func missedIsToldWithTheEndIfNothingWasDelivered() {
        var subscription = Subscription(
            start: .from(sequence(2)), window: window(9..<9), buffer: 4, overflow: .dropOldest, credit: credit(0))
        subscription.topicEnded(.completed, at: sequence(9))
        #expect(subscription.droppedSinceDelivery == 7)
        let taken = subscription.takeEnd()
        #expect(taken == .completed)
    }

    /// Nothing traps and nothing wraps, whatever a client requests and however high a topic's sequences are.
    @Test(arguments: Overflow.allCases) func extremes(_ policy: Overflow) {
        let starts: [Start] = [
            .next, .all, .last(0), .last(.max), .from(sequence(0)), .from(sequence(.max)), .from(sequence(1 << 63)),
        ]
        let windows = [0..<0, 0..<UInt64.max, 1..<UInt64.max, (.max - 2)..<UInt64.max, UInt64.max..<UInt64.max]
        for start in starts {
            for retained in windows {
                for buffer in [Int.min, 0, 1, 0x7FFF_FFFF, .max] {
                    exercise(start, retained, buffer, policy)
                }
            }
        }
    }

    private func exercise(_ start: Start, _ retained: Range<UInt64>, _ buffer: Int, _ policy: Overflow) {
        var subscription = Subscription(
            start: start, window: window(retained), buffer: buffer, overflow: policy, credit: credit(3))
        let top = sequence(.max)
        for _ in 0..<2 {
            subscription.appended(upTo: top)
            #expect(subscription.deliverable.count <= subscription.credit.available)
            if !subscription.deliverable.isEmpty { subscription.handOver(1) }
            subscription.applyPolicy()
            #expect(policy == .block || subscription.waiting <= subscription.limit)
            #expect(subscription.horizon.map { $0 >= subscription.joined } ?? true)
            let accepted = subscription.request(0x7FFF_FFFF)
            #expect(accepted)
        }
        if subscription.deliverable.count > 1 { subscription.handOver(subscription.deliverable.count - 1) }
        subscription.evict(before: top)
        subscription.topicEnded(.failed, at: top)
        #expect(subscription.waiting == 0)
        let taken = subscription.takeEnd()
        #expect(taken != nil)
        let reported = subscription.missedAtStart + subscription.dropped
        #expect(subscription.droppedSinceDelivery <= reported)
        #expect(subscription.cursor == top)
    }

    @Test func aWindowTheWrongWayRoundIsEmpty() {
        let inverted = SequenceRange(lower: sequence(9), upper: sequence(4))
        for start: Start in [.next, .all, .last(3), .from(sequence(2)), .from(sequence(6))] {
            let subscription = Subscription(
                start: start, window: inverted, buffer: 4, overflow: .dropOldest, credit: credit(0))
            #expect(subscription.waiting == 0)
            #expect(subscription.cursor == sequence(4))
        }
    }

    @Test func itIsSmall() {
        #expect(MemoryLayout<Subscription>.stride <= 160)
    }
}
