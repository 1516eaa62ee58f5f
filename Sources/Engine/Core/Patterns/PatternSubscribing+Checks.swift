// PatternSubscribing+Checks: what a subscription to a pattern may ask for.

import Bytes
import ForebayWire

extension PatternSubscribing {
    /// Checks a subscription without opening it.
    func check(
        _ text: String, _ options: SubscribeOptions, of principal: Principal, at peer: String
    ) throws(Refusal) {
        let pattern = try PatternSubscribing.pattern(text, options)
        try authorization.expectSubscribe(to: pattern, of: principal, at: peer)
    }

    /// What a subscription to a pattern may ask for.
    static func pattern(_ text: String, _ options: SubscribeOptions) throws(Refusal) -> TopicPattern {
        guard options.overflow != .block else {
            throw .invalid(
                "overflow=block is not allowed for a pattern: a client that stalls would stop the publishers of every "
                    + "topic that matches; use another policy, or subscribe to a single topic.")
        }
        if case .from = options.start {
            throw .invalid(
                "from is not allowed for a pattern, because each topic has its own sequence numbers; use replay or "
                    + "since, or send a position for each topic in the request's data.")
        }
        guard !options.opening else {
            throw .invalid("opening=on is not allowed for a pattern, which has no position of its own.")
        }
        do throws(TopicPatternError) {
            return try TopicPattern(parsing: text)
        } catch {
            throw .invalid("\(error).")
        }
    }

    /// Cursors that each subscription may have.
    private static let leastShare = 16

    /// Whether cursors take more memory than they may, and this subscription has more than its share of them.
    func exceedsShare(_ subscription: PatternSubscription) -> Bool {
        let most = memory.limit / 8 / PatternSubscribing.cursorMemory / shards
        let share = Swift.max(PatternSubscribing.leastShare, most / table.subscriptions)
        return table.cursors >= most && subscription.cursors.count >= share
    }

    func refusal(ofShare subscription: PatternSubscription) -> Refusal {
        context.refusal(
            at: .matches,
            "The subscription to '\(subscription.pattern)' has positions in "
                + "\(counted(subscription.cursors.count, "topic")), and those of all clients take an eighth of the "
                + "broker's memory; use a narrower pattern, or request messages in time.")
    }
}
