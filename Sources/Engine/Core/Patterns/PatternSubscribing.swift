// PatternSubscribing: turns a request for all topics that match a pattern into cursors, and later removes them.
//
//     subscribe ─▶ every shard is asked for its matching topics ─▶ begun, when all have answered
//     a message for a topic without a view here ─▶ its owner sends a view ─▶ a cursor for each matching subscription
//     no message for a while ─▶ cursors that are up to date are removed, then the view

import Bytes
import ForebayWire
import Replay

/// Subscriptions to patterns that are being given cursors in a view.
final class PatternJoins {
    let view: TopicView
    /// The position from which they follow the topic.
    let followed: SequenceNumber
    private var groups: [[PatternSubscription]]
    private var next = 0

    init(_ view: TopicView, _ followed: SequenceNumber, _ groups: [[PatternSubscription]]) {
        self.view = view
        self.followed = followed
        self.groups = groups
    }

    func nextSubscription() -> PatternSubscription? {
        while let group = groups.last {
            if next < group.count {
                next += 1
                return group[next - 1]
            }
            groups.removeLast()
            next = 0
        }
        return nil
    }
}

final class PatternSubscribing: ShardPart {
    let table: PatternTable
    let streams: StreamTable
    let subscriptions: SubscriptionTable
    let events: Events
    let authorization: Authorization
    let users: ConnectionUsers
    let delivery: Delivery
    let views: ViewTable
    let ends: StreamEnds
    let subscribing: Subscribing
    let followers: PatternFollowers
    let requests: PatternRequests
    let rest: PatternRest
    /// Subscriptions that have ended, whose cursors are still to be removed; and cursors of the one being removed.
    private var ended = TurnQueue<PatternSubscription>()
    private var leftovers: [Subscriber] = []
    /// Whether a later turn will remove some.
    private var isRemovalDeferred = false

    init(
        _ context: ShardContext, _ table: PatternTable, _ streams: StreamTable, _ subscriptions: SubscriptionTable,
        _ events: Events, _ authorization: Authorization, _ reading: Reading, _ users: ConnectionUsers,
        _ delivery: Delivery, _ views: ViewTable, _ ends: StreamEnds, _ subscribing: Subscribing,
        _ followers: PatternFollowers
    ) {
        self.table = table
        self.streams = streams
        self.subscriptions = subscriptions
        self.events = events
        self.authorization = authorization
        self.users = users
        self.delivery = delivery
        self.views = views
        self.ends = ends
        self.subscribing = subscribing
        self.followers = followers
        requests = PatternRequests(context, table, streams, reading, followers)
        rest = PatternRest(context, views)
        super.init(context)
        rest.patterns = self
    }

    /// Cursors that are made, or removed, before other work has its turn.
    static let slice = 128
    /// Positions in shared topics that a subscription keeps when it has begun.
    static let mostKept = 64
    /// Bytes that a cursor takes, about.
    static let cursorMemory = 768

    func subscribe(
        _ connection: Connection, stream: UInt32, initialN: UInt32, to text: String, _ options: SubscribeOptions,
        from positions: [ResumePosition], now: Instant
    ) throws(Refusal) {
        let pattern = try PatternSubscribing.pattern(text, options)
        let principal = users.principal(of: connection, stream)
        try authorization.expectSubscribe(to: pattern, of: principal, at: connection.peer)
        work.spent += positions.count / Work.membersPerUnit
        let positions = try PatternPositions(positions, in: pattern, most: limits.matches, shards: context.shards)
        let credit = try options.credit(initialN)
        var options = options.resolved(now: now)
        options.meta = true
        let rateLimit = users.rateLimit(connection, stream)
        try table.take(pattern, for: PatternSubscribing.who(principal, connection))
        do throws(Refusal) {
            try subscriptions.take(for: rateLimit?.account)
        } catch {
            table.giveBack(pattern)
            throw error
        }
        let id = subscriptions.nextNumber()
        let bound = streams.insert { handle in
            PatternSubscription(
                id: id, pattern: pattern, options: options, credit: credit, connection: connection, stream: stream,
                handle: handle, owners: 0..<context.shards, needs: table.needs, now: now.monotonic)
        }
        let subscription = bound.asPattern
        connection.attach(subscription)
        subscriptions.insert(subscription)
        table.add(subscription)
        charge(subscription) { subscription.beginning.positions = positions }
        work.spent += Work.subscribing
        work.spent += pattern.size / Work.patternBytesPerUnit
        requests.ask(for: subscription, now: now)
    }

    /// The subscription has begun in all topics that this node knows. Shared ones may become known later.
    private func releasePositions(of subscription: PatternSubscription) {
        charge(subscription) {
            subscription.beginning.positions.keep(most: PatternSubscribing.mostKept, where: limits.isShared)
        }
    }

    /// Charges a change of what a subscription remembers of topics without a cursor to `memory`.
    func charge<Result>(_ subscription: PatternSubscription, _ change: () -> Result) -> Result {
        let before = subscription.memory
        defer { memory.add(subscription.memory - before) }
        return change()
    }

    func request(_ n: UInt32, of subscription: PatternSubscription, now: Instant) {
        subscription.askedAt = now.monotonic
        guard subscription.request(n) else {
            return ends.fail(subscription, .requestOfZero)
        }
        delivery.patterns.serve(subscription, now: now)
        // `max-matches` may have been raised.
        joinSkippedLater(subscription)
    }

    // Topics that match

    /// Whether a subscription to a pattern has not ended.
    func isOpen(_ handle: Handle) -> Bool { streams[handle]?.kind == .pattern }

    /// A shard has answered with topics of which this shard has a view.
    func take(_ matches: PatternMatches, for handle: Handle, now: Instant) {
        guard let stream = streams[handle], stream.kind == .pattern else { return }
        let subscription = stream.asPattern
        if let refusal = matches.refusal { return ends.fail(subscription, refusal) }
        // Meanwhile, a message or the topic's end may have made a cursor.
        let isAwaited = matches.rejoined.map { subscription.beginning.rejoining.remove($0) != nil } ?? true
        work.spent += matches.linked.count / Work.membersPerUnit
        for epoch in isAwaited ? matches.linked : [] {
            guard !subscription.isOver else { return }
            guard !subscription.knows(epoch) else { continue }
            guard let view = views[epoch: epoch] else {
                rejoin(epoch, subscription, of: matches.owner, now: now)
                continue
            }
            // Without history, its position is that of all others without a cursor. An ended topic has nothing more.
            let isBehind = view.followed == nil && !view.state.isEnd
            if isBehind || subscription.wantsHistory || subscription.position(in: view) != nil
                || subscription.skipped[epoch] != nil
            {
                join(subscription, to: view, from: view.followed, isNew: true, now: now)
            }
        }
        guard !subscription.isOver else { return }
        if let epoch = matches.rejoined {
            // The topic has been deleted, was idle, or is no longer followed by this node.
            if matches.linked.isEmpty { takeSkipped(epoch, of: subscription) }
            // There may be room for another one.
            joinSkippedLater(subscription)
        }
        let begins = charge(subscription) {
            subscription.beginning.note(matches.count, of: matches.owner, isLast: matches.isLast)
        }
        // The limit may have been lowered since the subscription began.
        let isOverLimit = matches.rejoined == nil && subscription.beginning.matches > limits.matches
        guard !isOverLimit else { return refuse(subscription) }
        if subscription.hasBegun, subscription.beginning.rejoining.isEmpty { releasePositions(of: subscription) }
        guard begins else { return }
        events.event("subscribed", pattern: subscription)
        guard subscription.hasBody else { return }
        subscribing.responses.sendBegun(subscription)
        delivery.patterns.serve(subscription, now: now)
    }

    func rejoin(_ epoch: UInt64, _ subscription: PatternSubscription, of owner: Int, now: Instant) {
        guard
            subscription.wantsHistory || !subscription.beginning.positions.isEmpty
                || subscription.skipped[epoch] != nil
        else { return }
        subscription.beginning.rejoining.insert(epoch)
        let key = streams.key(subscription)
        if owner == index {
            followers.rejoin(epoch, key, now: now)
        } else {
            send(.rejoin(epoch: epoch, key), to: owner)
        }
    }

    /// The topic of a view has messages for subscriptions to patterns that have no cursor in it.
    func joinAll(_ view: TopicView, from followed: SequenceNumber, now: Instant) {
        view.followed = nil
        let groups = table.matches(view.name)
        guard !groups.isEmpty else { return }
        view.joining = followed
        let joins = PatternJoins(view, followed, groups)
        // One batch of another shard's messages may be for many topics, each with many subscriptions.
        if work.isTurnOver { work.doLater(.join(joins)) } else { goOn(joins, now: now) }
    }

    /// Gives some more subscriptions a cursor.
    func goOn(_ joins: PatternJoins, now: Instant) {
        let view = joins.view
        var left = PatternSubscribing.slice
        while left > 0, let subscription = joins.nextSubscription() {
            left -= 1
            // Only the topic's end is new.
            if joins.followed == view.end, !subscription.hasBody { continue }
            join(subscription, to: view, from: joins.followed, isNew: false, now: now)
        }
        work.spent += (PatternSubscribing.slice - left) / Work.membersPerUnit
        guard left > 0 else { return work.doLater(.join(joins)) }
        view.joining = nil
        views.noteActive(view, since: now.monotonic)
        view.markDirty()
    }

    /// Gives a subscription a cursor, unless it has one.
    /// - Parameters:
    ///   - followed: from where all messages are for subscriptions without a cursor.
    ///   - isNew: whether the subscription is to begin where its options say.
    func join(
        _ subscription: PatternSubscription, to view: TopicView, from followed: SequenceNumber?, isNew: Bool,
        now: Instant
    ) {
        guard !subscription.isOver, subscription.cursors[view.epoch] == nil else { return }
        var begins = isNew || subscription.begins(in: view.epoch)
        guard subscription.cursors.count < limits.matches else {
            return skip(view, of: subscription, from: followed, begins: begins)
        }
        guard makeRoom(for: subscription, now: now) else { return }
        let skipped = takeSkipped(view.epoch, of: subscription)
        if skipped != nil { begins = false }
        var options = subscription.options
        if let place = takePosition(of: subscription, in: view, begins: begins) {
            (options.start, options.epoch, options.since) = (.from(place.next), place.epoch, nil)
        }
        let cursor = Subscriber(
            id: subscription.id, options: options, view: view, credit: subscription.credit,
            connection: subscription.connection, stream: subscription.stream, handle: subscription.handle,
            now: now.monotonic)
        cursor.match = Match(subscription)
        cursor.principal = subscription.principal
        cursor.rateLimit = subscription.rateLimit
        // Clients that subscribe and cancel again and again must not leave cursors behind faster than they are removed.
        removeLeftovers(most: 2)
        work.spent += Work.cursor
        memory.add(PatternSubscribing.cursorMemory)
        table.cursors += 1
        subscription.add(cursor)
        views.noteActive(view, since: now.monotonic)
        subscribing.join(cursor, from: skipped?.followed ?? followed, begins: begins, now: now)
    }

    /// Where the client says that a subscription continues in a topic. A position of another epoch is kept: this node
    /// may be behind others.
    private func takePosition(
        of subscription: PatternSubscription, in view: TopicView, begins: Bool
    ) -> TopicPlace? {
        guard let place = subscription.position(in: view) else { return nil }
        guard place.epoch == view.epoch else { return begins ? place : nil }
        charge(subscription) { subscription.beginning.positions.remove(view.name, of: view.owner) }
        return place
    }

    // The end

    /// Removes a cursor. The subscription continues.
    func remove(_ cursor: Subscriber) {
        // It may have been removed while its removal was deferred.
        guard let subscription = cursor.match?.subscription, subscription.cursors[cursor.view.epoch] === cursor else {
            return
        }
        work.spent += Work.cursor
        delivery.countLosses(of: cursor)
        memory.add(-PatternSubscribing.cursorMemory)
        table.cursors -= 1
        if subscription.isOver { table.leaving -= 1 }
        charge(subscription) { subscription.remove(cursor, now: moment) }
        if cursor.isWaitingForOutput {
            cursor.connection.remove(outputWaiter: cursor)
            subscription.waiter = nil
            if !subscription.isOver, let next = subscription.turns.first ?? subscription.ends.first {
                subscription.waiter = next
                next.connection.add(outputWaiter: next)
            }
        } else if subscription.waiter === cursor {
            // They would reference each other.
            subscription.waiter = nil
        }
        let view = cursor.view
        view.remove(cursor)
        if view.isEmpty { view.markDirty() }
        joinSkippedLater(subscription)
    }

    /// The subscription's stream has ended. Its cursors are removed, some in each turn.
    func discard(_ subscription: PatternSubscription) {
        subscription.close()
        table.leaving += subscription.cursors.count
        subscriptions.remove(subscription)
        charge(subscription) { subscription.clear() }
        requests.withdraw(subscription)
        if subscription.hasBegun { events.event("unsubscribed", pattern: subscription, reason: subscription.end) }
        if table.remove(subscription) {
            followers.unmatch(subscription.pattern, shard: index)
            for shard in 0..<context.shards where shard != index {
                send(.unmatch(subscription.pattern, shard: index), to: shard)
            }
        }
        work.spent += Work.ending + subscription.pattern.size / Work.patternBytesPerUnit
        guard !subscription.cursors.isEmpty else { return }
        ended.append(subscription)
        // Never at once: when a connection ends, so do many of its subscriptions in the same input.
        guard !isRemovalDeferred else { return }
        isRemovalDeferred = true
        work.doLater(.removeLeftovers)
    }

    /// Removes some cursors of ended subscriptions now, and the others later.
    private func removeLeftovers() {
        removeLeftovers(most: PatternSubscribing.slice)
        isRemovalDeferred = !leftovers.isEmpty || !ended.isEmpty
        if isRemovalDeferred { work.doLater(.removeLeftovers) }
    }

    /// The shard is being deallocated.
    func removeAll() {
        for cursor in leftovers { cursor.match?.subscription.removeAllCursors() }
        ended.forEach { $0.removeAllCursors() }
        leftovers = []
        ended.removeAll()
        requests.removeAll()
        table.removeAll()
    }

    private func removeLeftovers(most: Int) {
        for _ in 0..<most {
            // All of a subscription at once: taking them from its dictionary one by one would visit it again each time.
            while leftovers.isEmpty, let next = ended.popFirst() {
                leftovers = Array(next.cursors.values)
                work.spent += leftovers.count / PatternSubscribing.slice
            }
            guard let cursor = leftovers.popLast() else { return }
            remove(cursor)
        }
    }

    /// Continues what was deferred.
    func goOn(_ deferred: PatternWork, now: Instant) {
        switch deferred {
        case .search(let search): followers.goOn(search, now: now)
        case .join(let joins): goOn(joins, now: now)
        case .joinSkipped(let subscription): joinSkipped(subscription, now: now)
        case .removeLeftovers: removeLeftovers()
        case .requests: requests.goOn(now: now)
        case .links: followers.links.goOn(now: now)
        case .restOthers: rest.goOn(now: now)
        case .rest(let view, let place): rest.goOn(view, below: place, now: now)
        }
    }
}

/// Work on subscriptions to patterns that is deferred to a later turn.
enum PatternWork {
    case search(PatternSearch)
    case join(PatternJoins)
    /// Topics that were skipped: their subscription has one cursor fewer.
    case joinSkipped(PatternSubscription)
    /// Cursors of ended subscriptions.
    case removeLeftovers
    case rest(TopicView, below: Int)
    /// Subscriptions for which no shard has been asked.
    case requests
    /// Views that wait until others were made.
    case links
    /// Views that have had no messages for a while.
    case restOthers
}
