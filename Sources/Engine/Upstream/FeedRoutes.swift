// FeedRoutes: which topic's feed a live message or the answer to a flush belongs to, on the current connection.

struct FeedRoutes {
    /// The subscription for answers to requests.
    static let inbox: UInt64 = 1

    private var bySubscription: [UInt64: TopicFeed] = [:]
    private var byFlush: [UInt64: TopicFeed] = [:]
    private var lastSubscription = inbox

    /// The id of the next subscription.
    mutating func nextSubscription() -> UInt64 {
        lastSubscription += 1
        return lastSubscription
    }

    mutating func add(_ feed: TopicFeed, subscription: UInt64) { bySubscription[subscription] = feed }
    mutating func remove(subscription: UInt64) { bySubscription[subscription] = nil }
    func feed(subscription: UInt64) -> TopicFeed? { bySubscription[subscription] }

    mutating func add(_ feed: TopicFeed, flush number: UInt64) { byFlush[number] = feed }
    mutating func take(flush number: UInt64) -> TopicFeed? { byFlush.removeValue(forKey: number) }

    /// The connection is lost.
    mutating func removeAll() {
        bySubscription.removeAll()
        byFlush.removeAll()
    }
}
