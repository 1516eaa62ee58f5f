// SubscriptionTable: the subscriptions of a shard's connections, by the numbers shown in lists and by the ids that
// accept credit over plain HTTP, and their limits.

import Bytes
import ForebayWire

final class SubscriptionTable {
    private let context: ShardContext
    private var byNumber = PartitionedDictionary<UInt64, Subscriber>()
    private var patterns = PartitionedDictionary<UInt64, PatternSubscription>()
    /// Plain HTTP streams that accept credit.
    private var byStream = PartitionedDictionary<SubscriptionID, BoundStream>()
    private var last: UInt64 = 0

    init(context: ShardContext) { self.context = context }

    var count: Int { byNumber.count + patterns.count }
    var patternCount: Int { patterns.count }
    /// The number of plain HTTP streams that accept credit.
    var streamCount: Int { byStream.count }

    subscript(number: UInt64) -> Subscriber? { byNumber[number] }
    subscript(pattern number: UInt64) -> PatternSubscription? { patterns[number] }
    /// A subscription to a topic or to a pattern.
    subscript(stream: SubscriptionID) -> BoundStream? { byStream[stream] }

    /// The broker-wide number of the next subscription.
    func nextNumber() -> UInt64 {
        last += 1
        return last * UInt64(context.shards) + UInt64(context.index)
    }

    func insert(_ subscriber: Subscriber) {
        assert(byNumber[subscriber.id] == nil)
        byNumber[subscriber.id] = subscriber
        context.counters.subscriptionsOpened &+= 1
    }

    func insert(_ subscription: PatternSubscription) {
        assert(patterns[subscription.id] == nil)
        patterns[subscription.id] = subscription
        context.counters.subscriptionsOpened &+= 1
    }

    func remove(_ subscription: PatternSubscription) {
        assert(patterns[subscription.id] === subscription)
        patterns[subscription.id] = nil
        if let id = subscription.streamID { byStream[id] = nil }
        giveBack(for: subscription.rateLimit?.account)
    }

    /// Registers the id under which the subscription accepts credit.
    func name(_ subscriber: Subscriber, _ id: SubscriptionID) {
        subscriber.streamID = id
        byStream[id] = subscriber
    }

    /// The same for a subscription to a pattern.
    func name(_ subscription: PatternSubscription, _ id: SubscriptionID) {
        subscription.streamID = id
        byStream[id] = subscription
    }

    func remove(_ subscriber: Subscriber) {
        assert(byNumber[subscriber.id] === subscriber)
        byNumber[subscriber.id] = nil
        if let id = subscriber.streamID { byStream[id] = nil }
        giveBack(for: subscriber.rateLimit?.account)
    }

    // Limits

    /// Counts a subscription that is about to be opened. If it is not opened, the caller must use `giveBack`.
    func take(for account: Account?) throws(Refusal) {
        let (limits, quota) = (context.limits, context.quotas.subscriptions)
        guard quota.take(limit: limits.subscriptions) else {
            let subscriptions = counted(limits.subscriptions, "subscription")
            throw context.refusal(
                at: .subscriptions, "The broker has \(subscriptions), the maximum; try again later.")
        }
        guard let account, !account.subscriptions.take(limit: limits.subscriptionsPerUser) else { return }
        quota.give()
        throw context.refusal(
            at: .subscriptionsPerUser,
            "\(account.titleHas) \(counted(limits.subscriptionsPerUser, "subscription")), the maximum; end some.")
    }

    func giveBack(for account: Account?) {
        context.quotas.subscriptions.give()
        account?.subscriptions.give()
    }
}
