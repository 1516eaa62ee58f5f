// MessageSender: hands messages to subscriptions in their protocol's form.

import ForebayWire
import HTTP2

final class MessageSender: ShardPart {
    let httpResponses: HTTPResponses
    let messageDelivery: MessageDelivery
    let entryDelivery: EntryDelivery
    // Above
    unowned(unsafe) var ends: StreamEnds!

    init(
        _ context: ShardContext, _ httpResponses: HTTPResponses, _ messageDelivery: MessageDelivery,
        _ entryDelivery: EntryDelivery
    ) {
        self.httpResponses = httpResponses
        self.messageDelivery = messageDelivery
        self.entryDelivery = entryDelivery
        super.init(context)
    }

    /// Hands over the messages that a subscription may receive now, in its protocol's form. Returns whether there is
    /// more to hand over once the output has space.
    @inline(__always)
    func send(to subscriber: Subscriber, quantum: Int, now: Instant) -> Bool {
        guard let exchange = subscriber.exchange else { return messageDelivery.handOver(subscriber, quantum: quantum) }
        guard let plain = exchange.plain else {
            return entryDelivery.handOverEntries(subscriber, exchange, quantum: quantum)
        }
        return entryDelivery.handOverRecords(subscriber, exchange, plain, quantum: quantum, now: now)
    }

    /// Notifies the client of a pattern that a topic has ended.
    func send(_ end: EndNotice, to subscription: PatternSubscription) {
        guard let exchange = subscription.exchange else { return }
        if let plain = exchange.plain { return httpResponses.report(end, exchange, plain) }
        let credit = subscription.credit.reported
        httpResponses.sendMessage(exchange) { end.append(outstandingCredit: credit, to: &$0) }
    }

    /// Ends a subscription whose client has half-closed and whose credit is spent: it can get no more.
    func endIfSpent(_ subscriber: Subscriber) {
        if let match = subscriber.match { return endIfSpent(match.subscription) }
        guard let exchange = subscriber.exchange, exchange.method != nil, exchange.request.isHalfClosed,
            !exchange.isFinished,
            subscriber.hasJoined, subscriber.credit.available == 0
        else { return }
        httpResponses.finish(exchange, .ok, end: .creditSpent, dropped: subscriber.cursor.droppedSinceDelivery)
        subscriber.end = MessageSender.spent
        ends.drop(subscriber)
    }

    /// The same for a subscription to a pattern.
    func endIfSpent(_ subscription: PatternSubscription) {
        guard let exchange = subscription.exchange, exchange.method != nil, exchange.request.isHalfClosed,
            !exchange.isFinished,
            subscription.hasBegun, subscription.credit.available == 0, subscription.ends.isEmpty
        else { return }
        httpResponses.finish(exchange, .ok, end: .creditSpent, dropped: subscription.sums.droppedSinceDelivery)
        subscription.end = MessageSender.spent
        ends.drop(subscription)
    }

    private static let spent = "its credit was spent, and it could not request more"
}
