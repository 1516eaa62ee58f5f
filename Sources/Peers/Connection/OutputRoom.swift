// OutputRoom: messages go into a connection's output as far as it has room; subscriptions that find none wait for their
// turn.

final class OutputFeeding: ShardPart {//@
    /// Bytes that one subscription is given at a time while others of its connection wait for output too.
    static let subscriptionQuantum = 64 << 10

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

    /// The output has room: what waited for it goes on.
    func fill(_ connection: Connection, now: Instant) {
        feedHungry(connection, now: now)
        if let http = connection.http {
            feedCrowded(http, now: now)
            answerHeldBack(http, now: now)
        }
        if !connection.waitingListings.isEmpty {
            let listings = connection.waitingListings
            connection.waitingListings.removeAll()
            for listing in listings where streams[listing.handle] === listing {
                listing.isWaiting = false
                proceed(listing, now: now)
            }
        }
        if !connection.isWritten { flush(connection) }
    }
}
