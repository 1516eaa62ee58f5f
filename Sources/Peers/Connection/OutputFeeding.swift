// OutputFeeding: moves messages into a connection's output as long as it has space. Subscriptions that find no space
// wait in a queue.

final class OutputFeeding: ShardPart {
    let streams: StreamTable
    let connections: ConnectionTable
    let relief: MemoryRelief
    let delivery: Delivery
    let listRequests: ListRequests
    let httpAdmin: HTTPAdmin

    init(
        _ context: ShardContext, _ streams: StreamTable, _ connections: ConnectionTable, _ relief: MemoryRelief,
        _ delivery: Delivery, _ listRequests: ListRequests, _ httpAdmin: HTTPAdmin
    ) {
        self.streams = streams
        self.connections = connections
        self.relief = relief
        self.delivery = delivery
        self.listRequests = listRequests
        self.httpAdmin = httpAdmin
        super.init(context)
    }

    /// Bytes given to one subscription at a time while others on its connection wait for output too.
    static let subscriptionQuantum = 64 << 10

    func feedRoomy(_ connection: Connection, now: Instant) {
        guard !connection.isClosed else { return }
        feedOutputWaiters(connection, now: now)
        if let http = connection.http { feedWindowWaiters(http, now: now) }
    }

    /// Delivers to subscribers that waited for space in the output, which has some again.
    func feedOutputWaiters(_ connection: Connection, now: Instant) {
        let start = work.spent
        defer { work.spentFeeding += work.spent - start }
        for _ in 0..<connection.outputWaiterCount {
            // If time is up, continue after the next write.
            guard work.spent < start + Work.turn / 4 || connection.isWritten, connection.hasRoom(limits.output),
                !connection.output.blocked,
                let subscriber = connection.waiters.nextOutputWaiter()
            else { return }
            delivery.deliver(
                subscriber, quantum: connection.outputWaiterCount > 0 ? OutputFeeding.subscriptionQuantum : .max,
                now: now)
        }
    }

    /// Continues everything that waited for space in the output, which has some again.
    func fill(_ connection: Connection, now: Instant) {
        feedOutputWaiters(connection, now: now)
        if let http = connection.http {
            feedWindowWaiters(http, now: now)
            httpAdmin.answerHeldBack(http, now: now)
        }
        if connection.waiters.listCount > 0 {
            for listStream in connection.waiters.takeLists() where streams[listStream.handle] === listStream {
                listStream.isWaiting = false
                listRequests.proceed(listStream, now: now)
            }
        }
        if !connection.isWritten { connections.flush(connection) }
    }

    /// Delivers to streams whose next message exceeds their window, as long as the limit on bytes beyond windows
    /// allows.
    func feedWindowWaiters(_ http: HTTPConnection, now: Instant) {
        while let exchange = http.nextWindowWaiter(limit: limits.beyondWindows) {
            guard let bound = exchange.bound, bound.isSubscription else { continue }
            if bound.kind == .pattern {
                delivery.patterns.serve(bound.asPattern, now: now)
                continue
            }
            delivery.deliver(bound.asSubscriber, now: now)
        }
    }

    /// Lets subscribers that waited for memory continue, a few at a time; called after each tick. If memory is still
    /// short, for them or for publishes, views release the message forms they keep. Forms that are being sent are then
    /// held only by connections, so that the last resort can find them.
    func feedStarved() {
        // Subscribers of other threads may need this memory too, so the total counts even if none wait here.
        let isMuch = memory.forms > memory.limit / EntryForm.share / 2
        if isMuch || !work.isFed || relief.isRefusing { relief.removeUnusedForms() }
        if relief.isRefusing || isMuch && !work.isFed, memory.unread <= memory.limit / UnreadMemory.share {
            for view in relief.viewsWithForms.prefix(MemoryRelief.topicsPerLook) { view.removeRuns() }
        }
        work.feed(most: Work.endings)
    }
}
