// OutputFeeding: messages go into a connection's output as far as it has room; subscriptions that find none wait for
// their turn.

final class OutputFeeding: ShardPart {
    let streams: StreamTable
    let connections: ConnectionTable
    let relief: MemoryRelief
    let delivery: Delivery
    let listings: Listings
    let httpAdmin: HTTPAdmin

    init(
        _ context: ShardContext, _ streams: StreamTable, _ connections: ConnectionTable, _ relief: MemoryRelief,
        _ delivery: Delivery, _ listings: Listings, _ httpAdmin: HTTPAdmin
    ) {
        self.streams = streams
        self.connections = connections
        self.relief = relief
        self.delivery = delivery
        self.listings = listings
        self.httpAdmin = httpAdmin
        super.init(context)
    }

    /// Bytes that one subscription is given at a time while others of its connection wait for output too.
    static let subscriptionQuantum = 64 << 10

    func feedRoomy(_ connection: Connection, now: Instant) {
        guard !connection.isClosed else { return }
        feedHungry(connection, now: now)
        if let http = connection.http { feedCrowded(http, now: now) }
    }

    /// Output has room again: subscribers that waited for it have their turns.
    func feedHungry(_ connection: Connection, now: Instant) {
        for _ in 0..<connection.hungryCount {
            guard connection.hasRoom(limits.output), !connection.output.blocked,
                let subscriber = connection.waiters.nextHungry()
            else { return }
            delivery.deliver(
                subscriber, quantum: connection.hungryCount > 0 ? OutputFeeding.subscriptionQuantum : .max, now: now)
        }
    }

    /// The output has room: what waited for it goes on.
    func fill(_ connection: Connection, now: Instant) {
        feedHungry(connection, now: now)
        if let http = connection.http {
            feedCrowded(http, now: now)
            httpAdmin.answerHeldBack(http, now: now)
        }
        if connection.waiters.listingCount > 0 {
            for listing in connection.waiters.takeListings() where streams[listing.handle] === listing {
                listing.isWaiting = false
                listings.proceed(listing, now: now)
            }
        }
        if !connection.isWritten { connections.flush(connection) }
    }

    /// Streams whose message goes beyond their window have their turns, as far as others have gone.
    func feedCrowded(_ http: HTTPConnection, now: Instant) {
        while let exchange = http.nextCrowded(limit: limits.beyondWindows) {
            guard let bound = exchange.bound, bound.kind == .subscriber else { continue }
            delivery.deliver(bound.asSubscriber, now: now)
        }
    }

    /// A tick has ended: those that had to wait for memory may go on, some at a time. Where there is still none, for
    /// them or for publishes, what views keep for those who are being sent it is theirs alone from here on, so that the
    /// last resort may find it.
    func feedStarved() {
        // Others may wait on another thread.
        let isMuch = memory.forms > memory.limit / EntryForm.share / 2
        if isMuch || !work.isFed || relief.isRefusing { relief.removeUnusedForms() }
        if relief.isRefusing || isMuch && !work.isFed, memory.unread <= memory.limit / UnreadMemory.share {
            for view in relief.viewsWithForms.prefix(MemoryRelief.topicsPerLook) { view.removeRuns() }
        }
        work.feed(most: Work.endings)
    }
}
