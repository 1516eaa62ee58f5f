// Subscribing: turns a request on a connection into a cursor in the shard's view of the topic, and later ends it.

import Bytes
import ForebayWire
import Replay

final class Subscribing: ShardPart {
    let auditLog: AuditLog
    let streams: StreamTable
    let topics: TopicTable
    let subscriptions: SubscriptionTable
    let events: Events
    let authorization: Authorization
    let reading: Reading
    let users: ConnectionUsers
    let responses: Responses
    let delivery: Delivery
    let views: ViewTable
    let ends: StreamEnds
    let ownership: TopicOwnership
    // Above
    unowned(unsafe) var patterns: PatternSubscribing!
    unowned(unsafe) var attachment: ViewAttachment!

    init(
        _ context: ShardContext, _ auditLog: AuditLog, _ streams: StreamTable, _ topics: TopicTable,
        _ subscriptions: SubscriptionTable, _ events: Events, _ authorization: Authorization, _ reading: Reading,
        _ users: ConnectionUsers, _ responses: Responses, _ delivery: Delivery, _ views: ViewTable, _ ends: StreamEnds,
        _ ownership: TopicOwnership
    ) {
        self.auditLog = auditLog
        self.streams = streams
        self.topics = topics
        self.subscriptions = subscriptions
        self.events = events
        self.authorization = authorization
        self.reading = reading
        self.users = users
        self.responses = responses
        self.delivery = delivery
        self.views = views
        self.ends = ends
        self.ownership = ownership
        super.init(context)
    }

    func subscribe(
        _ connection: Connection, stream: UInt32, initialN: UInt32, to name: String, _ options: SubscribeOptions,
        from positions: [ResumePosition] = [], now: Instant
    ) throws(Refusal) {
        if TopicName.isPattern(name) {
            return try patterns.subscribe(
                connection, stream: stream, initialN: initialN, to: name, options, from: positions, now: now)
        }
        guard positions.isEmpty else {
            throw .invalid(
                "Positions are for a pattern, and '\(name)' is a single topic; begin at a sequence of it instead.")
        }
        try SystemTopic.check(name, options)
        if options.overflow == .block, limits.isShared(name) {
            throw .invalid(
                "The topic '\(name)' is shared with other nodes, whose publishers a subscription here cannot slow "
                    + "down; use another overflow policy than block.")
        }
        if let fault = TopicName.fault(TopicName.isSystem(name) ? "SYS" : name) { throw .invalid(fault) }
        try authorization.expectSubscribe(
            to: name, options, of: users.principal(of: connection, stream), at: connection.peer)
        let credit = try options.credit(initialN)
        let options = options.resolved(now: now)
        let rateLimit = users.rateLimit(connection, stream)
        try subscriptions.take(for: rateLimit?.account)
        let view: TopicView
        do throws(Refusal) {
            view = try attachment.view(of: name, on: connection, for: rateLimit?.account, now: now)
        } catch {
            subscriptions.giveBack(for: rateLimit?.account)
            throw error
        }
        let id = subscriptions.nextNumber()
        let bound = streams.insert { handle in
            Subscriber(
                id: id, options: options, view: view, credit: credit, connection: connection, stream: stream,
                handle: handle, now: now.monotonic)
        }
        let subscriber = bound.asSubscriber
        connection.attach(subscriber)
        subscriptions.insert(subscriber)
        work.spent += Work.subscribing
        guard !view.isAttached else { return join(subscriber, now: now) }
        view.addWaiting(subscriber)
        reportWaiting(view)
    }

    /// Reports to the owner of a shared topic how many subscriptions here wait for it: they may wait for long.
    private func reportWaiting(_ view: TopicView) {
        guard limits.isShared(view.name), views[view.name] === view else { return }
        let count = view.waiting.count
        if view.owner == index {
            ownership.noteWaiting(count, for: view.name, on: index, now: moment)
        } else {
            send(.waiting(count, name: view.name, shard: index), to: view.owner)
        }
    }

    func request(_ n: UInt32, of subscriber: Subscriber, now: Instant) {
        subscriber.askedAt = now.monotonic
        guard subscriber.request(n) else {
            ends.fail(subscriber, .requestOfZero)
            return
        }
        if subscriber.hasJoined { delivery.deliver(subscriber, now: now) }
    }

    // Once the view is attached

    /// Sets a subscriber's initial position in the topic and delivers its first messages.
    /// - Parameter wasEmpty: whether the topic was empty when the subscriber began to wait for it.
    func join(_ subscriber: Subscriber, wasEmpty: Bool = false, now: Instant) {
        if isAhead(subscriber) { return wait(subscriber) }
        if subscriber.isOfOtherEpoch { return join(subscriber, at: Subscribing.newStart(of: subscriber), now: now) }
        guard let since = subscriber.options.since else {
            let start = subscriber.options.start
            return join(subscriber, at: wasEmpty && start == .next ? .all : start, now: now)
        }
        if let first = first(atOrAfter: since.resolved(now: now.wall), for: subscriber) {
            join(subscriber, atOrAfter: first, now: now)
        }
    }

    /// Sets the initial position of a cursor of a subscription to a pattern. What is before `followed` is replayed if
    /// the options ask for it; what is after it has arrived since.
    /// - Parameters:
    ///   - followed: from where all messages are for the subscription.
    ///   - begins: whether the subscription begins where its options say, if that is earlier.
    func join(_ cursor: Subscriber, from followed: SequenceNumber?, begins: Bool, now: Instant) {
        let view = cursor.view
        let window = window(of: view)
        // A shared topic's stream may end with control messages, which its log does not have.
        let followed = Swift.min(followed ?? window.upper, window.upper)
        // A position of this topic. Messages that are not retained any longer may still be in the log.
        if case .from = cursor.options.start {
            if isAhead(cursor) { return wait(cursor) }
            let start = cursor.isOfOtherEpoch ? Subscribing.newStart(of: cursor) : cursor.options.start
            let oldest = Swift.min(window.lower, Swift.max(followed, gone(from: view)))
            return join(cursor, at: start, in: SequenceRange(lower: oldest, upper: window.upper), now: now)
        }
        guard begins else {
            return join(cursor, at: .next, in: SequenceRange(lower: followed, upper: followed), now: now)
        }
        guard let since = cursor.options.since else {
            return join(cursor, at: cursor.options.start, replaying: window.lower, upTo: followed, now: now)
        }
        cursor.match?.followed = followed
        if let first = first(atOrAfter: since.resolved(now: now.wall), for: cursor) {
            join(cursor, since: first, now: now)
        }
    }

    /// The same for a cursor whose subscription asked for the messages since a time.
    /// - Parameter first: the first of them.
    func join(_ cursor: Subscriber, since first: SequenceNumber, now: Instant) {
        let window = window(of: cursor.view)
        let followed = cursor.match?.followed ?? window.upper
        join(cursor, at: .all, replaying: Swift.max(first, window.lower), upTo: followed, now: now)
    }

    private func join(
        _ cursor: Subscriber, at start: Start, replaying first: SequenceNumber, upTo followed: SequenceNumber,
        now: Instant
    ) {
        let first = Swift.max(first, gone(from: cursor.view))
        let replayed = SequenceRange(lower: Swift.min(first, followed), upper: followed)
        join(cursor, at: start, in: replayed, now: now)
    }

    /// Up to where a view's messages are gone, or just lost.
    private func gone(from view: TopicView) -> SequenceNumber {
        view.isStored ? view.lost : Swift.max(view.log.head, view.lost)
    }

    /// Whether a subscriber requested a position that its shared topic has on another node, but not on this one yet.
    private func isAhead(_ subscriber: Subscriber) -> Bool {
        let view = subscriber.view
        guard case .from(let sequence) = subscriber.options.start, view.state.isLive, limits.isShared(view.name) else {
            return false
        }
        return !subscriber.isOfOtherEpoch && sequence > window(of: view).upper
    }

    /// Waits until the topic has reached the requested position on this node.
    private func wait(_ subscriber: Subscriber) {
        subscriber.view.addWaiting(subscriber)
        subscriber.view.markDirty()
        noteAhead(subscriber)
    }

    private func noteAhead(_ subscriber: Subscriber) {
        guard case .from(let sequence) = subscriber.options.start else { return }
        subscriber.view.awaited = Swift.min(subscriber.view.awaited ?? sequence, sequence)
    }

    /// Lets the subscribers join that waited for a position which the view has reached, or will not reach.
    func advanced(_ view: TopicView, now: Instant) {
        guard let awaited = view.awaited, awaited <= window(of: view).upper || !view.state.isLive else { return }
        view.awaited = nil
        for subscriber in view.waiting {
            if isAhead(subscriber) {
                noteAhead(subscriber)
                continue
            }
            if case .left(let refusal) = view.state {
                if subscriber.match == nil { ends.fail(subscriber, refusal) } else { patterns.remove(subscriber) }
                continue
            }
            view.removeWaiting(subscriber)
            join(subscriber, now: now)
        }
    }

    /// - Parameter known: the messages to begin with, if others than those for a new member. Later ones have arrived
    ///   since, and may have been lost.
    func join(_ subscriber: Subscriber, at start: Start, in known: SequenceRange? = nil, now: Instant) {
        let view = subscriber.view
        let options = subscriber.options
        let isOtherEpoch = subscriber.isOfOtherEpoch
        var window = known ?? window(of: view)
        var start = start
        if view.log.hasHoles { (start, window) = view.log.placed(start, in: window) }
        let cursor = Subscription(start: start, window: window, buffer: options.buffer, overflow: options.overflow)
        if options.gapFails, isOtherEpoch || cursor.gapAtStart {
            let refusal = Refusal(.gap, Subscribing.gap(subscriber, window))
            return fail(subscriber, refusal)
        }
        subscriber.join(at: cursor)
        if known != nil {
            subscriber.cursor.appended(upTo: self.window(of: view).upper)
            subscriber.cursor.evict(before: gone(from: view))
        }
        if view.log.hasHoles { subscriber.passHoles() }
        view.add(subscriber)
        view.notifyOfEnd(to: subscriber)
        if subscriber.match == nil {
            responses.sendJoined(to: subscriber)
            events.event("subscribed", subscriber: subscriber)
        }
        delivery.deliver(subscriber, now: now)
    }

    /// Where a subscription begins that requested another epoch: after the messages of that epoch, if they are known.
    private static func newStart(of subscriber: Subscriber) -> Start {
        let former = subscriber.options.epoch.flatMap { subscriber.view.formerEpoch($0) }
        return former.map { .from($0.end) } ?? .all
    }

    private static func gap(_ subscriber: Subscriber, _ window: SequenceRange) -> String {
        let (options, view) = (subscriber.options, subscriber.view)
        let advice =
            subscriber.match == nil
            ? "subscribe with replay=all, or without gap=fail."
            : "leave out its position, or subscribe without gap=fail."
        if subscriber.isOfOtherEpoch {
            return "The topic '\(view.name)' restarted with epoch \(view.epoch) and lost the requested "
                + "messages; it retains \(window.lower) to \(window.upper) (exclusive); \(advice)"
        }
        guard case .from(let sequence) = options.start else {
            return "Messages are missing; \(advice)"
        }
        return "The topic '\(view.name)' retains the messages from \(window.lower) to \(window.upper) "
            + "(exclusive), but \(sequence) was requested; \(advice)"
    }

    /// The gap, for the text of a failure.
    private static func gap(_ subscriber: Subscriber) -> String {
        if subscriber.isOfOtherEpoch {
            return " (the topic restarted with epoch \(subscriber.view.epoch) and lost the requested messages)"
        }
        return " (the requested message did not exist yet)"
    }

    /// The messages available for replay to a new member.
    func window(of view: TopicView) -> SequenceRange {
        if view.sharesLog, let topic = topics[epoch: view.epoch] {
            return SequenceRange(lower: topic.retained, upper: topic.committed)
        }
        let end = view.log.end
        // A store may have removed messages that the owner has not reported as such yet.
        let oldest = view.isStored ? view.lost : view.log.head
        return SequenceRange(lower: Swift.min(Swift.max(view.retained, oldest), end), upper: end)
    }

    // The end

    /// Sends a subscriber the end of its subscription, which needs no credit and follows all messages.
    func finish(_ subscriber: Subscriber, _ end: End, now: Instant) {
        let lost = subscriber.cursor.droppedSinceDelivery
        let dropped = counted(lost, "message was", "messages were")
        let gap = subscriber.hasUnreportedGap ? Subscribing.gap(subscriber) : ""
        let note = gap + (lost > 0 ? " (\(dropped) dropped since the last one delivered)" : "")
        switch end {
        case .completed where subscriber.match != nil, .topicFailed where subscriber.match != nil:
            patterns.remove(subscriber)
        case .completed:
            responses.sendCompletion(to: subscriber, lost: lost)
            subscriber.end = "the topic completed"
            ends.drop(subscriber)
        case .topicFailed:
            switch subscriber.view.state {
            case .left(let refusal): ends.fail(subscriber, Refusal(refusal.word, "\(refusal.sentence)\(note)"))
            case .failed(let reason): ends.fail(subscriber, Refusal(.topicFailed, "\(reason)\(note)"))
            case .live, .completed: ends.fail(subscriber, Refusal(.topicFailed, "unknown\(note)"))
            }
        case .overflow(let cause):
            if cause == .blockedTooLong {
                reached(.blockLimit)
                auditLog.warn(ofBlocking: subscriber)
            }
            let text =
                switch cause {
                case .buffer: "the buffer of \(counted(subscriber.options.buffer, "message")) was full"
                case .bytes: "bytes: the topic's log reached its limit of \(subscriber.view.byteLimit) bytes"
                case .lost: "lost: the topic lost messages before they could be delivered"
                case .blockedTooLong:
                    "blocked too long: the buffer was full without progress for \(limits.blockLimit / Limits.second) s"
                }
            events.event("overflow", subscriber: subscriber)
            fail(subscriber, Refusal(.overflow, "\(text)\(note)"))
        }
    }

    /// Ends a subscription with an error. If it is one to a pattern, the error names the topic.
    private func fail(_ subscriber: Subscriber, _ refusal: Refusal) {
        guard let match = subscriber.match else { return ends.fail(subscriber, refusal) }
        // What the end reports as lost includes what was lost just now.
        match.note(subscriber, now: moment)
        ends.fail(
            match.subscription, Refusal(refusal.word, "topic '\(subscriber.view.name)': \(refusal.sentence)"))
    }

    /// Notes why a subscription ends, for the event.
    func noteEnd(of stream: BoundStream, _ reason: String) {
        if stream.kind == .pattern { stream.asPattern.end = reason } else { stream.asSubscriber.end = reason }
    }

    func discard(_ subscriber: Subscriber) {
        delivery.countLosses(of: subscriber)
        work.spent += Work.ending
        if subscriber.isWaitingForOutput { subscriber.connection.remove(outputWaiter: subscriber) }
        subscriptions.remove(subscriber)
        let view = subscriber.view
        if subscriber.hasJoined { events.event("unsubscribed", subscriber: subscriber, reason: subscriber.end) }
        view.remove(subscriber)
        if !view.isAttached { reportWaiting(view) } else if view.isEmpty || view.awaited != nil { view.markDirty() }
    }

    /// Gives credit to a stream of this shard, for the user that opened it. The answer has no description.
    func give(
        _ n: UInt32, to id: SubscriptionID, of user: String?, now: Instant
    ) -> Result<Description?, Refusal> {
        guard let subscriber = subscriptions[id] else {
            return .failure(
                Refusal(
                    .notFound,
                    "There is no subscription \(id.text); its id is valid as long as its stream is open."))
        }
        guard subscriber.principal.user == user else {
            counters.denied += 1
            return .failure(
                Refusal(.forbidden, "The subscription belongs to another user; use the credentials that opened it."))
        }
        if subscriber.kind == .pattern {
            patterns.request(n, of: subscriber.asPattern, now: now)
        } else {
            request(n, of: subscriber.asSubscriber, now: now)
        }
        return .success(nil)
    }
}
