// OutputRoom: messages go into a connection's output as far as it has room; subscriptions that find none wait for their
// turn.

extension Shard {
    /// Bytes that one subscription is given at a time while others of its connection wait for output too.
    static let subscriptionQuantum = 64 << 10

    /// Hands over the messages that a subscription may have now, in the form of its protocol. Returns whether there is
    /// more to hand over once the output has room.
    @inline(__always)
    func send(to subscriber: Subscriber, quantum: Int, now: Instant) -> Bool {
        guard let exchange = subscriber.exchange else { return handOver(subscriber, quantum: quantum) }
        guard let plain = exchange.plain else { return handOverEntries(subscriber, exchange, quantum: quantum) }
        return handOverRecords(subscriber, exchange, plain, quantum: quantum, now: now)
    }

    /// What waited in the output may have gone without a write: it waits for its peer's windows now, or its stream has
    /// ended. Others of the connection may wait for that room, and no write will tell them.
    func noteRoom(_ connection: Connection) {
        guard connection.hungryCount > 0 || connection.http?.isCrowded == true, !connection.isRoomy else { return }
        connection.isRoomy = true
        roomyConnections.append(connection)
    }

    func feedRoomy(_ connection: Connection, now: Instant) {
        connection.isRoomy = false
        guard !connection.isClosed else { return }
        feedHungry(connection, now: now)
        if let http = connection.http { feedCrowded(http, now: now) }
    }

    /// Output has room again: subscribers that waited for it have their turns.
    func feedHungry(_ connection: Connection, now: Instant) {
        for _ in 0..<connection.hungryCount {
            guard connection.hasRoom(limits.output), !connection.output.blocked,
                let subscriber = connection.nextHungry()
            else { return }
            deliver(subscriber, quantum: connection.hungryCount > 0 ? Shard.subscriptionQuantum : .max, now: now)
        }
    }
}
