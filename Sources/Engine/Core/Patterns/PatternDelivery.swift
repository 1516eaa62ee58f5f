// PatternDelivery: serves the cursors of a subscription to a pattern in turn, one message each, so that a topic with
// many messages does not delay those of others. Notifies clients of the ends of topics, where the protocol can.

import ForebayWire
import Replay

final class PatternDelivery: ShardPart {
    let delivery: Delivery

    /// Turns that a subscription takes before its connection is written to, or other subscriptions are served.
    static let turns = 128

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
        guard !subscription.isOver, cursor.isMember, cursor.hasTurn || cursor.cursor.end != nil else { return }
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
        reportEnds(to: subscription, now: now)
        guard !subscription.isWaitingForOutput else { return }
        var left = PatternDelivery.turns
        while !subscription.isOver, let cursor = subscription.nextTurn() {
            if left <= 0, cursor.connection.handedOver > 0 { return waitForWrite(cursor, of: subscription) }
            left -= 1
            work.spent += Work.cursorTurn
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

    /// Continues with a cursor's turn when its connection has been written to.
    private func waitForWrite(_ cursor: Subscriber, of subscription: PatternSubscription) {
        subscription.waiter = cursor
        if !cursor.isWaitingForOutput { cursor.connection.add(outputWaiter: cursor) }
    }

    // Ends of topics

    /// Notifies the client that a cursor's topic has ended, for which it needs no credit. Over RSocket, which has no
    /// frame for that, nothing is sent.
    /// - Returns: false if the client will be notified later. The cursor stays until then, so a client that does not
    ///   read has no more ends waiting than it may have cursors.
    func report(endOf cursor: Subscriber, to subscription: PatternSubscription) -> Bool {
        guard let exchange = subscription.exchange, let notice = EndNotice(of: cursor) else { return true }
        guard mayNotify(subscription, of: cursor, on: exchange) else {
            // The topic may be followed again, with another view. Nothing may wait in this one then.
            if case .left = cursor.view.state { return true }
            subscription.awaitEnd(of: cursor)
            return false
        }
        delivery.sender.send(notice, to: subscription)
        subscription.noteReported(notice.dropped)
        return true
    }

    /// Whether a notice can be sent now. If not, the subscription is served when it can.
    private func mayNotify(_ subscription: PatternSubscription, of cursor: Subscriber, on exchange: Exchange) -> Bool {
        guard subscription.isConfirmed, !subscription.isWaitingForOutput else { return false }
        switch delivery.sender.entryDelivery.room(exchange) {
        case .now: return true
        case .whenWindowOpens: return false
        case .whenOutputHasSpace:
            waitForWrite(cursor, of: subscription)
            return false
        }
    }

    /// Notifies the client of ends for which its output had no space.
    private func reportEnds(to subscription: PatternSubscription, now: Instant) {
        while !subscription.isOver, let cursor = subscription.ends.first {
            delivery.endIfDue(cursor, now: now)
            if cursor.isMember { return }
        }
    }
}

extension EndNotice {
    /// The end of a cursor's topic; nil if something else ends the cursor.
    fileprivate init?(of cursor: Subscriber) {
        var failure: String?
        switch (cursor.cursor.end, cursor.view.state) {
        case (.completed, _): break
        case (.topicFailed, .failed(let reason)): failure = Refusal(.topicFailed, reason).message
        case (.topicFailed, _), (.overflow, _), (nil, _): return nil
        }
        self.init(
            topic: cursor.view.name, epoch: cursor.view.epoch, failure: failure,
            dropped: cursor.cursor.droppedSinceDelivery, restarts: cursor.hasUnreportedGap)
    }
}
