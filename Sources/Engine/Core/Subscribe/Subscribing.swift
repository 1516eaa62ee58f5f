// Subscribing: from a request on a connection to a cursor in the shard's view of the topic, and back to its end.

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
        now: Instant
    ) throws(Refusal) {
        try SystemTopic.check(name, options)
        if let fault = TopicName.fault(TopicName.isSystem(name) ? "SYS" : name) { throw .invalid(fault) }
        try authorization.expectSubscribe(
            to: name, options, of: users.principal(of: connection, stream), at: connection.peer)
        var credit = Credit(mode: options.demand)
        guard credit.add(initialN) else {
            throw .invalid("REQUEST_STREAM with an initial n of 0 is not allowed; ask for 1 or more.")
        }
        let meter = users.meter(connection, stream)
        try subscriptions.take(for: meter?.account)
        let mirror: Mirror
        do throws(Refusal) {
            mirror = try self.mirror(of: name, on: connection, for: meter?.account, now: now)
        } catch {
            subscriptions.giveBack(for: meter?.account)
            throw error
        }
        let id = subscriptions.nextNumber()
        let bound = streams.insert { handle in
            Subscriber(
                id: id, options: options, mirror: mirror, credit: credit, connection: connection, stream: stream,
                handle: handle, now: now.monotonic)
        }
        let subscriber = bound.asSubscriber
        connection.attach(subscriber)
        subscriptions.insert(subscriber)
        work.spent += Work.subscribing
        if mirror.isAttached { join(subscriber, now: now) } else { mirror.addWaiting(subscriber) }
    }

    func request(_ n: UInt32, of subscriber: Subscriber, now: Instant) {
        subscriber.askedAt = now.monotonic
        guard subscriber.request(n) else {
            ends.fail(subscriber, .invalid("REQUEST_N of 0 is not allowed; ask for 1 or more."))
            return
        }
        if subscriber.hasJoined { delivery.deliver(subscriber, now: now) }
    }

    // The view is there

    /// Gives a subscriber its place in the topic and its first messages.
    func join(_ subscriber: Subscriber, now: Instant) {
        let mirror = subscriber.mirror
        let options = subscriber.options
        let isOtherEpoch = subscriber.isOfOtherEpoch
        let start = isOtherEpoch ? .all : options.start
        let window = window(of: mirror)
        let cursor = Subscription(
            start: start, window: window, buffer: options.buffer, overflow: options.overflow)
        if options.gapFails, isOtherEpoch || cursor.gapAtStart {
            ends.fail(subscriber, Refusal(.gap, Subscribing.gap(options, mirror, window, isOtherEpoch: isOtherEpoch)))
            return
        }
        subscriber.join(at: cursor)
        mirror.add(subscriber)
        mirror.tellEnd(to: subscriber)
        responses.sayJoined(to: subscriber)
        events.event("subscribed", subscriber: subscriber)
        delivery.deliver(subscriber, now: now)
    }

    private static func gap(
        _ options: SubscribeOptions, _ mirror: Mirror, _ window: SequenceRange,
        isOtherEpoch: Bool
    ) -> String {
        if isOtherEpoch {
            return "gap: the topic '\(mirror.name)' began anew with epoch \(mirror.epoch), so the messages asked for "
                + "are gone; it retains \(window.lower) to \(window.upper) (exclusive)."
        }
        guard case .from(let sequence) = options.start else { return "gap" }
        return "gap: the topic '\(mirror.name)' retains the messages from \(window.lower) to \(window.upper) "
            + "(exclusive), and \(sequence) was asked for."
    }

    /// As a failure tells it.
    private static func gap(_ subscriber: Subscriber) -> String {
        if subscriber.isOfOtherEpoch {
            return " (the topic began anew with epoch \(subscriber.mirror.epoch), so what was asked for is gone)"
        }
        return " (the message that was asked for was not there yet)"
    }

    /// What is replayed to who joins.
    private func window(of mirror: Mirror) -> SequenceRange {
        if mirror.sharesLog, let topic = topics[epoch: mirror.epoch] {
            return SequenceRange(lower: topic.retained, upper: topic.committed)
        }
        let end = mirror.log.end
        if mirror.isStored { return SequenceRange(lower: Swift.min(mirror.retained, end), upper: end) }
        return SequenceRange(lower: Swift.min(Swift.max(mirror.retained, mirror.log.head), end), upper: end)
    }

    // Its end

    /// Tells a subscriber the end of its subscription, which needs no credit and comes behind all messages.
    func finish(_ subscriber: Subscriber, _ end: End, now: Instant) {
        let lost = subscriber.cursor.droppedSinceDelivery
        let dropped = counted(lost, "message was", "messages were")
        let gap = subscriber.hasUntoldGap ? Subscribing.gap(subscriber) : ""
        let note = gap + (lost > 0 ? " (\(dropped) dropped since the last one delivered)" : "")
        switch end {
        case .completed:
            responses.sayCompleted(to: subscriber, lost: lost)
            subscriber.end = "the topic completed"
            ends.drop(subscriber)
        case .topicFailed:
            var reason = "unknown"
            if case .failed(let text) = subscriber.mirror.state { reason = text }
            ends.fail(subscriber, Refusal(.topicFailed, "topic failed: \(reason)\(note)"))
        case .overflow(let cause):
            if cause == .blockedTooLong {
                reached(.blockLimit)
                auditLog.warn(ofBlocking: subscriber)
            }
            let text =
                switch cause {
                case .buffer: "the buffer of \(counted(subscriber.options.buffer, "message")) was full"
                case .bytes: "bytes: the topic's log reached its limit of \(subscriber.mirror.byteLimit) bytes"
                case .blockedTooLong:
                    "blocked too long: the buffer was full without progress for \(limits.blockLimit / Limits.second) s"
                }
            events.event("overflow", subscriber: subscriber)
            ends.fail(subscriber, Refusal(.overflow, "overflow: \(text)\(note)"))
        }
    }

    func forget(_ subscriber: Subscriber) {
        delivery.countLosses(of: subscriber)
        work.spent += Work.ending
        if subscriber.isHungry { subscriber.connection.leave(hungry: subscriber) }
        subscriptions.remove(subscriber)
        let mirror = subscriber.mirror
        if subscriber.hasJoined { events.event("unsubscribed", subscriber: subscriber, reason: subscriber.end) }
        mirror.remove(subscriber)
        if mirror.isEmpty { mirror.markDirty() }
    }

    // Views

    /// The shard's view of a topic, which is asked for if there is none.
    private func mirror(
        of name: String, on connection: Connection, for account: Account?, now: Instant
    ) throws(Refusal) -> Mirror {
        if let view = views[name] { return view }
        let owner = owner(of: name)
        guard owner == index else {
            let mirror = Mirror(name: name, owner: owner, views: views)
            views.insert(mirror)
            // To subscribe and cancel again and again is to be no more work for the owner than it can deal with.
            reading.forward(MessageBatch.envelope, of: connection)
            send(.attach(name: name, shard: index, account, connection.id), to: owner)
            return mirror
        }
        let topic = try ownership.topic(named: name, for: account, now: now)
        let mirror = Mirror(name: name, owner: owner, views: views, log: topic.log, end: topic.committed)
        mirror.epoch = topic.epoch
        mirror.state = topic.visibleState
        mirror.lost = topic.window.lost
        mirror.isStored = topic.isStored
        mirror.typical = topic.publishers.room.typical
        mirror.isAttached = true
        views.insert(mirror)
        topic.link(index)
        return mirror
    }

    /// The owner answered with the topic's log.
    func attached(_ name: String, _ view: TopicView, now: Instant) {
        guard let mirror = views[name], !mirror.isAttached else {
            send(.detach(epoch: view.epoch, shard: index, MirrorPast()), to: owner(of: name))
            return
        }
        mirror.epoch = view.epoch
        mirror.state = view.state
        mirror.retained = view.retained
        mirror.lost = view.lost
        mirror.isStored = view.isStored
        mirror.typical = view.typical
        views.attach(mirror)
        for subscriber in mirror.attach(view) { join(subscriber, now: now) }
        mirror.markDirty()
    }

    func attachRefused(_ name: String, _ refusal: Refusal) {
        guard let mirror = views[name] else { return }
        views.removeName(of: mirror)
        for subscriber in mirror.refused() { ends.fail(subscriber, refusal) }
    }

    /// Tells the owner how far the view is, or that nobody here looks at it any more.
    func report(_ mirror: Mirror, now: Instant) {
        guard mirror.isEmpty else {
            guard let progress = mirror.progress() else { return }
            if mirror.owner == index {
                topics[epoch: mirror.epoch]?.heard(progress, from: index, now: now)
            } else {
                mirror.report(progress)
            }
            return
        }
        guard views.remove(mirror) else { return }
        mirror.release()
        let past = MirrorPast(dropped: mirror.dropped, delivered: mirror.delivered)
        if mirror.owner == index {
            ownership.unlink(mirror.epoch, index, past, now: now)
        } else {
            send(.detach(epoch: mirror.epoch, shard: index, past), to: mirror.owner)
        }
    }

    /// Gives credit to a stream of this shard, for the user that opened it. There is nothing to describe in the answer.
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
                Refusal(.forbidden, "The subscription is another user's; ask with the credentials that opened it."))
        }
        request(n, of: subscriber, now: now)
        return .success(nil)
    }
}
