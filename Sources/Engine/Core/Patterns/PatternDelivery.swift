// PatternDelivery: serves the cursors of a subscription to a pattern in turn, one message each, so that a topic with
// many messages does not delay those of others.

import Replay

final class PatternDelivery: ShardPart {
    let delivery: Delivery

    init(_ context: ShardContext, _ delivery: Delivery) {
        self.delivery = delivery
        super.init(context)
    }

    /// A cursor may have something to hand over.
    func deliver(_ cursor: Subscriber, quantum: Int = .max, now: Instant) {
        guard let subscription = cursor.match?.subscription, !subscription.isOver else { return }
        subscription.addTurn(for: cursor)
        serve(subscription, quantum: quantum, now: now)
        // Messages that have to wait for a turn are subject to the overflow policy.
        guard cursor.hasTurn, !subscription.isOver, cursor.isMember else { return }
        delivery.applyPolicy(to: cursor, now: now)
        cursor.match?.note(cursor, now: now)
        delivery.endIfDue(cursor, now: now)
    }

    /// Hands over messages while credit and the connection's output allow.
    func serve(_ subscription: PatternSubscription, quantum: Int = .max, now: Instant) {
        guard !subscription.isServing, !subscription.isWaitingForOutput, subscription.isConfirmed else { return }
        subscription.isServing = true
        defer {
            subscription.isServing = false
            subscription.allowance = 0
        }
        while !subscription.isOver, let cursor = subscription.nextTurn() {
            let delivered = cursor.cursor.delivered
            delivery.handOver(to: cursor, quantum: quantum, now: now)
            guard !subscription.isOver else { return }
            guard cursor.isMember else { continue }
            cursor.match?.note(cursor, now: now)
            let hasMore = !cursor.cursor.isUpToDate && !cursor.awaitsHistory && !cursor.awaitsForm
            // If its message does not fit, it is the first to be served when the output has space. Otherwise, shorter
            // messages of other topics would overtake it again and again.
            let keepsTurn = hasMore && cursor.cursor.delivered == delivered
            if !keepsTurn {
                subscription.endTurn(of: cursor)
                if hasMore { subscription.addTurn(for: cursor) }
            }
            // The output is full, or the peer's window is closed: that holds for all cursors.
            if cursor.isWaitingForOutput { subscription.waiter = cursor }
            if keepsTurn || cursor.isWaitingForOutput { return }
        }
    }
}
