// MessageSender: hands messages to subscriptions in the form of their protocol.

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

    /// Hands over the messages that a subscription may have now, in the form of its protocol. Returns whether there is
    /// more to hand over once the output has room.
    @inline(__always)
    func send(to subscriber: Subscriber, quantum: Int, now: Instant) -> Bool {
        guard let exchange = subscriber.exchange else { return messageDelivery.handOver(subscriber, quantum: quantum) }
        guard let plain = exchange.plain else {
            return entryDelivery.handOverEntries(subscriber, exchange, quantum: quantum)
        }
        return entryDelivery.handOverRecords(subscriber, exchange, plain, quantum: quantum, now: now)
    }

    /// The client half-closed, so that its credit is all there will be: once that is spent the subscription is over.
    func endIfSpent(_ subscriber: Subscriber) {
        guard let exchange = subscriber.exchange, exchange.method != nil, exchange.request.isHalfClosed,
            !exchange.isFinished,
            subscriber.hasJoined, subscriber.credit.available == 0
        else { return }
        httpResponses.finish(exchange, .ok, end: .creditSpent, dropped: subscriber.cursor.droppedSinceDelivery)
        subscriber.end = "its credit was spent, and no more could come"
        ends.drop(subscriber)
    }
}
