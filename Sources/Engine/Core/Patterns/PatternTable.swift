// PatternTable: the subscriptions to patterns on a shard, by pattern.

import Bytes
import ForebayWire

/// The subscriptions to one pattern.
final class PatternGroup {
    let pattern: TopicPattern
    private(set) var subscriptions: [PatternSubscription] = []
    /// Whether the shards were asked for its topics.
    fileprivate var wasAsked = false

    init(_ pattern: TopicPattern) { self.pattern = pattern }

    func add(_ subscription: PatternSubscription) {
        subscription.member = subscriptions.count
        subscriptions.append(subscription)
    }

    func remove(_ subscription: PatternSubscription) {
        assert(subscriptions[subscription.member] === subscription)
        let last = subscriptions.removeLast()
        guard last !== subscription else { return }
        subscriptions[subscription.member] = last
        last.member = subscription.member
    }
}

final class PatternTable: ShardPart {
    private var groups = PatternTrie<PatternGroup>()
    private(set) var subscriptions = 0
    /// All cursors, and those among them whose subscriptions have ended.
    var cursors = 0
    var leaving = 0
    let needs = PatternNeeds()
    /// One of so many parts of `memory` is for cursors. Tests use a smaller one, so that topics have room.
    var part = 4

    var isEmpty: Bool { groups.isEmpty }

    /// Counts a subscription's pattern, if it is the first with that pattern on this shard.
    /// - Throws: the refusal at the limit of different patterns.
    /// - Parameter who: the subscriber, for the log.
    func take(_ pattern: TopicPattern, for who: [LogField]) throws(Refusal) {
        guard groups[pattern] == nil, !quotas.patterns.take(pattern, limit: limits.patterns) else { return }
        throw context.refusal(
            at: .patterns,
            "The broker's clients are subscribed to as many different patterns as they may, \(limits.patterns) "
                + "(max-patterns, where a pattern counts once for every 4 tokens, rounded up); subscribe to fewer or "
                + "shorter patterns, or try again later.",
            of: who)
    }

    /// Takes back `take`: there will be no subscription.
    func giveBack(_ pattern: TopicPattern) {
        if groups[pattern] == nil { quotas.patterns.give(pattern) }
    }

    /// Adds a subscription, after `take`.
    func add(_ subscription: PatternSubscription) {
        let group = groups[subscription.pattern] ?? PatternGroup(subscription.pattern)
        group.add(subscription)
        subscriptions += 1
        groups[subscription.pattern] = group
    }

    /// The shards are being asked for a pattern's topics.
    func noteAsked(_ pattern: TopicPattern) { groups[pattern]?.wasAsked = true }

    /// Returns whether no subscription with that pattern is left, and the shards were asked for its topics.
    func remove(_ subscription: PatternSubscription) -> Bool {
        guard let group = groups[subscription.pattern] else { return false }
        group.remove(subscription)
        subscriptions -= 1
        guard group.subscriptions.isEmpty else { return false }
        groups[subscription.pattern] = nil
        quotas.patterns.give(subscription.pattern)
        return group.wasAsked
    }

    /// Whether a subscription's pattern matches this topic.
    func hasMatch(_ name: String) -> Bool { hasMatch(name, in: groups) }

    /// The subscriptions whose patterns match a topic, in groups with the same pattern.
    func matches(_ name: String) -> [[PatternSubscription]] {
        var found: [[PatternSubscription]] = []
        forEachMatch(name, in: groups) { found.append($0.subscriptions) }
        return found
    }

    /// The shard is being deallocated. Cursors and subscriptions reference each other.
    func removeAll() {
        for group in groups.values { for subscription in group.subscriptions { subscription.removeAllCursors() } }
        groups = PatternTrie()
        needs.removeAll()
    }
}
