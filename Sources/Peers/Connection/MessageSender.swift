// MessageSender: hands messages to subscriptions in the form of their protocol.

final class MessageSender: ShardPart {//@
    /// Hands over the messages that a subscription may have now, in the form of its protocol. Returns whether there is
    /// more to hand over once the output has room.
    @inline(__always)
    func send(to subscriber: Subscriber, quantum: Int, now: Instant) -> Bool {
        guard let exchange = subscriber.exchange else { return handOver(subscriber, quantum: quantum) }
        guard let plain = exchange.plain else { return handOverEntries(subscriber, exchange, quantum: quantum) }
        return handOverRecords(subscriber, exchange, plain, quantum: quantum, now: now)
    }
}
