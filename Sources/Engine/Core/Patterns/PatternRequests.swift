// PatternRequests: asks all shards for the topics that match subscriptions to patterns, a few at a time. Otherwise, the
// messages of other clients would wait behind many searches. A subscription that ends while it waits costs the shards
// nothing.
//
//     a subscription begins ─▶ few on their way ─▶ asked ──a shard has begun to search──▶ the next one that waits
//                                   └──many──▶ waits ──the subscription ends──▶ withdrawn

final class PatternRequests: ShardPart {
    let table: PatternTable
    let streams: StreamTable
    let reading: Reading
    let followers: PatternFollowers
    /// Requests that other shards have not begun to answer.
    private(set) var underWay = 0
    private(set) var waiting = TurnQueue<PatternSubscription>()
    /// Whether a later turn will send some.
    private var isDeferred = false
    /// Requests on their way to each shard, on average, above which others wait. Tests use few.
    var most = 16
    /// Requests sent before other work has its turn.
    private static let slice = 4

    init(
        _ context: ShardContext, _ table: PatternTable, _ streams: StreamTable, _ reading: Reading,
        _ followers: PatternFollowers
    ) {
        self.table = table
        self.streams = streams
        self.reading = reading
        self.followers = followers
        super.init(context)
    }

    private var isBusy: Bool { underWay > most * (shards - 1) }

    /// Asks for the topics that match, or does so later.
    func ask(for subscription: PatternSubscription, now: Instant) {
        guard isBusy || !waiting.isEmpty else { return send(subscription, now: now) }
        subscription.beginning.place = waiting.append(subscription)
    }

    /// Asks all shards for the topics that match.
    private func send(_ subscription: PatternSubscription, now: Instant) {
        let connection = subscription.connection
        table.noteAsked(subscription.pattern)
        var request = PatternRequest(
            pattern: subscription.pattern, subscription: streams.key(subscription), connection: connection.id,
            wantsHistory: subscription.wantsHistory)
        for shard in 0..<shards where shard != index {
            request.places = subscription.beginning.positions[shard]
            // Subscribing and canceling repeatedly must not cause more work than the owners can handle.
            reading.forward(request.weight, of: connection)
            underWay += 1
            send(.match(request), to: shard)
        }
        request.places = subscription.beginning.positions[index]
        followers.match(request, now: now)
    }

    /// Another shard has begun to answer a request. As this shard's own searches take long, the next requests are sent
    /// in a later turn.
    func begun() {
        assert(underWay > 0)
        underWay -= 1
        sendLater()
    }

    private func sendLater() {
        guard !isDeferred, !isBusy, !waiting.isEmpty else { return }
        isDeferred = true
        work.doLater(.requests)
    }

    /// Asks for some of those that wait.
    func goOn(now: Instant) {
        isDeferred = false
        for _ in 0..<PatternRequests.slice {
            guard !isBusy, let next = waiting.popFirst() else { return }
            next.beginning.place = nil
            send(next, now: now)
        }
        sendLater()
    }

    /// The subscription has ended.
    func withdraw(_ subscription: PatternSubscription) {
        if let place = subscription.beginning.place.take() {
            waiting.withdraw(place)
            return
        }
        let key = streams.key(subscription)
        for shard in subscription.beginning.unanswered {
            if shard == index { followers.withdraw(key) } else { send(.withdraw(key), to: shard) }
        }
    }

    /// The shard is being deallocated.
    func removeAll() { waiting.removeAll() }
}
