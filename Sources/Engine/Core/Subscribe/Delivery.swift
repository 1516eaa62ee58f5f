// Delivery: hands messages from the log to a subscriber's connection while its credit and the connection's output
// allow. The overflow policy applies to the rest.

import Replay

final class Delivery: ShardPart {
    let timers: Timers
    let sender: MessageSender
    let blocking: Blocking
    // Above
    unowned(unsafe) var history: HistoryReading!
    unowned(unsafe) var subscribing: Subscribing!
    unowned(unsafe) var patterns: PatternDelivery!

    init(_ context: ShardContext, _ timers: Timers, _ sender: MessageSender, _ blocking: Blocking) {
        self.timers = timers
        self.sender = sender
        self.blocking = blocking
        super.init(context)
    }

    /// Hands over what can be handed over now, applies the overflow policy to the rest, and ends the subscription if
    /// its end is due.
    @inline(__always)
    func deliver(_ subscriber: Subscriber, quantum: Int = .max, now: Instant) {
        guard subscriber.match == nil else { return patterns.deliver(subscriber, quantum: quantum, now: now) }
        handOver(to: subscriber, quantum: quantum, now: now)
    }

    /// The same for one subscription, or one cursor of a subscription to a pattern.
    func handOver(to subscriber: Subscriber, quantum: Int, now: Instant) {
        let isWaiting = sender.send(to: subscriber, quantum: quantum, now: now)
        if subscriber.lacksHistory { history.askForHistory(subscriber) }
        applyPolicy(to: subscriber, now: now)
        if isWaiting, !subscriber.isWaitingForOutput {
            subscriber.connection.add(outputWaiter: subscriber)
            // The subscription may be waiting for memory, and no write signals when there is some.
            if subscriber.connection.session != nil { timers.touch(subscriber.connection) }
        }
        endIfDue(subscriber, now: now)
    }

    /// Applies the overflow policy to messages that could not be handed over.
    @inline(__always)
    func applyPolicy(to subscriber: Subscriber, now: Instant) {
        if !subscriber.cursor.isUpToDate { subscriber.applyPolicy() }
        note(subscriber, now: now)
    }

    @inline(__always)
    func endIfDue(_ subscriber: Subscriber, now: Instant) {
        if subscriber.cursor.end != nil {
            end(subscriber, now: now)
        } else if subscriber.hasBody {
            sender.endIfSpent(subscriber)
        }
    }

    private func end(_ subscriber: Subscriber, now: Instant) {
        // The end of one topic of a pattern waits for output space.
        if let match = subscriber.match, !patterns.report(endOf: subscriber, to: match.subscription) { return }
        guard let end = subscriber.cursor.takeEnd() else { return }
        subscribing.finish(subscriber, end, now: now)
        // The last message of an ended topic may have used the last credit.
        if let subscription = subscriber.match?.subscription, !subscription.isOver, subscription.hasBody {
            sender.endIfSpent(subscription)
        }
    }

    /// Updates the counts of a subscription after a delivery.
    @inline(__always)
    private func note(_ subscriber: Subscriber, now: Instant) {
        countLosses(of: subscriber)
        guard subscriber.cursor.waiting > 0 else {
            if subscriber.behindSince != nil { subscriber.behindSince = nil }
            return subscriber.view.noteMove(of: subscriber, oldest: MinimumTree.none)
        }
        if subscriber.behindSince == nil { subscriber.behindSince = now.monotonic }
        subscriber.view.noteMove(of: subscriber, oldest: subscriber.cursor.cursor.value)
    }

    /// Notes that the waiting messages of a `block` subscription have changed.
    func noteWaiting(_ subscriber: Subscriber) { blocking.noteWaiting(subscriber) }

    /// Adds the subscription's losses since the last call to the counters.
    func countLosses(of subscriber: Subscriber) {
        guard subscriber.hasJoined else { return }
        let dropped = subscriber.cursor.dropped
        guard dropped != subscriber.countedDropped else { return }
        counters.dropped[subscriber.options.overflow] &+= dropped &- subscriber.countedDropped
        subscriber.view.dropped.add(dropped &- subscriber.countedDropped, under: subscriber.options.overflow)
        if let match = subscriber.match { match.subscription.noteLoss(dropped &- subscriber.countedDropped) }
        subscriber.countedDropped = dropped
        if subscriber.options.overflow != .latest { counters.lastDrop = moment.monotonic }
    }
}
