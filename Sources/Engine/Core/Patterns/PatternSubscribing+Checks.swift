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

    /// Cursors that each subscription may have, and those of all on this thread, however little memory there is.
    private static let (leastShare, leastInAll) = (16, 64)

    /// Makes room for one more cursor, if cursors take as much memory as they may. A subscription that needs more than
    /// its share then ends one of a connection that needs far more, if there is one, or else itself.
    /// - Returns: false if it has ended.
    func makeRoom(for subscription: PatternSubscription, now: Instant) -> Bool {
        let part = memory.limit / table.part / PatternSubscribing.cursorMemory / shards
        let most = Swift.max(PatternSubscribing.leastInAll, part)
        guard table.cursors - table.leaving >= most else { return true }
        rest.makeRoom(now: now)
        let share = Swift.max(PatternSubscribing.leastShare, most / table.subscriptions)
        guard table.cursors - table.leaving >= most, subscription.needed >= share else { return true }
        if let largest = table.needs.largest(beside: subscription.connection), let other = neediest(of: largest) {
            // Its connection may be closed already, with many streams left.
            if largest.isClosed { ends.drop(other) } else { end(other) }
            return true
        }
        end(subscription)
        return false
    }

    /// The subscription of a connection with messages waiting in most topics; nil if all need the least share or less.
    private func neediest(of connection: Connection) -> PatternSubscription? {
        work.spent += connection.streams.count / Work.membersPerUnit
        var found: PatternSubscription?
        for stream in connection.streams where stream.kind == .pattern {
            if stream.asPattern.needed > found?.needed ?? PatternSubscribing.leastShare { found = stream.asPattern }
        }
        return found
    }

    /// Whose subscription it is, for the log.
    static func who(_ principal: Principal, _ connection: Connection) -> [LogField] {
        [principal.user.map { ("user", $0) } ?? ("anonymous", "yes"), ("peer", connection.peer)]
    }

    private func end(_ subscription: PatternSubscription) {
        let refusal = context.refusal(
            at: .patternPositions,
            "The subscription to '\(subscription.pattern)' needs positions in "
                + "\(counted(subscription.needed, "topic")), and those of all subscriptions to patterns take as much "
                + "memory as they may; request messages sooner, use a narrower pattern, or give the broker more "
                + "memory.",
            of: PatternSubscribing.who(subscription.principal, subscription.connection))
        ends.fail(subscription, refusal)
    }
}
