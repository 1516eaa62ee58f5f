// TopicStatistics: statistics of a topic, a subscription and a connection, for lists, control calls, metrics and the
// admin listener.

import ForebayWire
import Replay

/// What a subscription or its waiting messages wait for.
public enum WaitsFor: String, Sendable {
    /// No message waits.
    case nothing
    /// The subscription has not begun: its topic, or its position in it, is not known on this node yet.
    case topic
    /// The client has to request more.
    case credit
    /// The client has to read what was already sent.
    case socket
}

/// One subscription. Times are in nanoseconds.
public struct SubscriptionStatistics: Sendable {
    public var id: UInt64
    public var topic: String
    public var connection: String
    public var peer: String
    /// Nil if anonymous.
    public var user: String?
    public var stream: UInt32
    public var policy: Overflow
    public var buffer: Int
    /// All credit ever requested, and the outstanding part; nil if unbounded.
    public var requested: UInt64?
    public var outstanding: UInt64?
    public var delivered: UInt64
    public var waiting: Int
    public var dropped: UInt64
    /// Messages that were already gone when the subscription began.
    public var missed: UInt64
    /// The sequence of the next message that the subscription can receive.
    public var next: UInt64
    /// The number of messages by which the subscription is behind its topic, and the age of the oldest message that it
    /// can still receive.
    public var lag: Int
    public var age: UInt64
    /// How long messages have been waiting for the subscription without interruption.
    public var behind: UInt64
    public var waitsFor: WaitsFor
    /// Time since the client last requested messages.
    public var asked: UInt64
    public var meta: Bool
    /// Nil unless the subscription is to a pattern, which is given as its topic.
    public var pattern: Pattern?

    /// What belongs only to a subscription to a pattern.
    public struct Pattern: Sendable {
        /// Topics that matched when it began.
        public var matched: Int
        /// In how many topics it has a position of its own. In the others it has received everything.
        public var cursors: Int
        /// How often a topic with messages was skipped because of `max-matches`.
        public var skipped: Int
    }

    public var json: String {
        var object = JSONObject()
        object.add("id", id)
        object.add("topic", topic)
        object.add("connection", connection)
        object.add("stream", stream)
        object.add("peer", peer)
        if let user { object.add("user", user) }
        object.add("policy", policy.name)
        object.add("buffer", buffer)
        if let requested, let outstanding {
            object.add("requested", requested)
            object.add("outstanding", outstanding)
        } else {
            object.add("requested", "unbounded")
            object.add("outstanding", "unbounded")
        }
        object.add("delivered", delivered)
        object.add("waiting", waiting)
        object.add("dropped", dropped)
        object.add("missed", missed)
        object.add("next", next)
        object.add("lag", lag)
        object.add("lag_ms", age / 1_000_000)
        object.add("behind_ms", behind / 1_000_000)
        object.add("waits_for", waitsFor.rawValue)
        object.add("asked_ms", asked / 1_000_000)
        object.add("meta", meta)
        if let pattern {
            object.add("matched", pattern.matched)
            object.add("cursors", pattern.cursors)
            object.add("skipped", pattern.skipped)
        }
        return object.finished()
    }
}

/// One topic, as its owner knows it.
public struct TopicStatistics: Sendable {
    public var name: String
    public var epoch: UInt64
    /// Nanoseconds since the topic was created.
    public var age: UInt64
    /// "live", "completed" or "failed", and why the topic failed.
    public var state: String
    public var error: String?
    public var first: UInt64
    public var next: UInt64
    public var retained: Int
    /// The retention limits, in messages, bytes and nanoseconds.
    public var retention: Retention
    /// What the messages in memory and in the store are charged, and the memory that the log takes.
    public var bytes: Int
    public var memory: Int
    public var storage: StorageStatistics
    public var subscriptions: Int
    public var publishers: Int
    public var published: UInt64
    public var delivered: UInt64
    public var dropped: DropCounts
    public var fireAndForgetDropped: UInt64
    public var refused: UInt64
    /// Lost publishes by shortage, and nanoseconds since the last one; nil if there was none.
    public var short: InlineArray<5, UInt64>
    public var lostSince: UInt64?
    /// The lag of the subscription that is furthest behind, in messages.
    public var lag: Int
    var activity: Activity
    public var overshoot: UInt64
    public var parked: Int
    public var parkedBytes: Int
    /// Publishers waiting for room, and for how many nanoseconds any waited: in total, and without interruption until
    /// now.
    public var blockedPublishers: Int
    public var waitFor: PublishersWaitFor?
    public var blocked: UInt64
    public var blockedNow: UInt64

    var object: JSONObject {
        var object = JSONObject()
        object.add("name", name)
        object.add("epoch", String(epoch))
        object.add("state", state)
        if let error { object.add("error", error) }
        object.add("first", first)
        object.add("next", next)
        object.add("retained", retained)
        object.add("retain", retention.messages)
        object.add("retain_bytes", retention.bytes)
        object.add("retain_age_ms", retention.age / 1_000_000)
        object.add("bytes", bytes)
        storage.add(to: &object)
        object.add("subscriptions", subscriptions)
        object.add("publishers", publishers)
        object.add("published", published)
        object.add("delivered", delivered)
        object.add("dropped", dropped.total)
        object.add("fire_and_forget_dropped", fireAndForgetDropped)
        object.add("publishes_refused", refused)
        object.add("lost", PublishLoss.shortages.reduce(0) { $0 &+ lost(to: $1) })
        object.add("overshoot", overshoot)
        object.add("parked", parked)
        object.add("publishers_blocked", blockedPublishers)
        if let waitFor { object.add("publishers_wait_for", waitFor.rawValue) }
        object.add("blocked_ms", blocked / 1_000_000)
        return object
    }

    public func lost(to shortage: PublishLoss) -> UInt64 { shortage.isShortage ? short[shortage.rawValue] : 0 }

    public var json: String { object.finished() }

    /// The topic as JSON, with the sums of its subscriptions.
    public func json(with sums: SubscriptionSums) -> String {
        var object = object
        sums.add(to: &object)
        return object.finished()
    }
}

extension TopicStatistics {
    /// A topic of which only the name is set, for tests.
    package init(name: String) {
        self.init(
            name: name, epoch: 0, age: 0, state: "live", error: nil, first: 1, next: 1, retained: 0,
            retention: Retention(messages: 0, bytes: 0, age: 0), bytes: 0, memory: 0, storage: StorageStatistics(),
            subscriptions: 0, publishers: 0, published: 0, delivered: 0, dropped: DropCounts(),
            fireAndForgetDropped: 0, refused: 0, short: InlineArray(repeating: 0), lostSince: nil, lag: 0,
            activity: Activity(madeAt: 0), overshoot: 0,
            parked: 0, parkedBytes: 0, blockedPublishers: 0, waitFor: nil, blocked: 0, blockedNow: 0)
    }
}

/// Sums over many subscriptions.
public struct SubscriptionSums: Sendable {
    public var count = 0
    public var waiting = 0
    /// The total credit of the bounded subscriptions, and the number of unbounded ones.
    public var outstanding: UInt64 = 0
    public var unbounded = 0
    /// The numbers of subscriptions with messages waiting for credit, and for the socket.
    public var waitingForCredit = 0
    public var waitingForSocket = 0
    /// The maxima over the subscriptions.
    public var lag = 0
    public var age: UInt64 = 0
    public var behind: UInt64 = 0
    /// The number of slow subscriptions: behind for at least `slowness`, not just about to receive what waits.
    public var slow = 0

    public static let slowness: UInt64 = 750_000_000

    public init() {}

    public mutating func add(_ other: SubscriptionSums) {
        slow += other.slow
        count += other.count
        waiting += other.waiting
        outstanding &+= other.outstanding
        unbounded += other.unbounded
        waitingForCredit += other.waitingForCredit
        waitingForSocket += other.waitingForSocket
        lag = Swift.max(lag, other.lag)
        age = Swift.max(age, other.age)
        behind = Swift.max(behind, other.behind)
    }

    public func add(to object: inout JSONObject) {
        object.add("waiting", waiting)
        object.add("outstanding", outstanding)
        object.add("unbounded", unbounded)
        object.add("waiting_for_credit", waitingForCredit)
        object.add("waiting_for_socket", waitingForSocket)
        object.add("lag", lag)
        object.add("lag_ms", age / 1_000_000)
        object.add("behind_ms", behind / 1_000_000)
        object.add("slow", slow)
    }
}

/// Sums over many topics.
public struct TopicSums: Sendable {
    public var count = 0
    public var bytes = 0
    /// Memory that the logs take.
    public var memory = 0
    public var retained = 0
    /// Topics that a store keeps.
    public var durable = 0
    public var relaxed = 0
    public var publishers = 0
    public var blockedPublishers = 0
    /// Those of `blockedPublishers` that wait for the store.
    public var waitingForStore = 0
    public var parked = 0
    public var parkedBytes = 0

    public init() {}

    public mutating func add(_ other: TopicSums) {
        count += other.count
        bytes += other.bytes
        memory += other.memory
        retained += other.retained
        durable += other.durable
        relaxed += other.relaxed
        publishers += other.publishers
        blockedPublishers += other.blockedPublishers
        waitingForStore += other.waitingForStore
        parked += other.parked
        parkedBytes += other.parkedBytes
    }
}

/// Sums over many connections.
public struct ConnectionSums: Sendable {
    public var rsocket = 0
    public var http2 = 0
    public var http1 = 0
    /// HTTP connections whose version is not known yet.
    public var undecided = 0
    public var count: Int { rsocket + http2 + http1 + undecided }
    /// Bytes that wait for their sockets, and how many of them are answers and other control output.
    public var output = 0
    public var control = 0
    /// Connections that the broker does not read because their clients do not read.
    public var paused = 0

    public init() {}

    public mutating func add(_ other: ConnectionSums) {
        rsocket += other.rsocket
        http2 += other.http2
        http1 += other.http1
        undecided += other.undecided
        output += other.output
        control += other.control
        paused += other.paused
    }
}

extension TopicStatistics {
    /// - Parameter state: the state to report; nil for the state that subscribers see.
    init(_ topic: Topic, state: TopicState? = nil, now: Instant) {
        let (publishers, losses) = (topic.publishers, topic.losses.value)
        let state = state ?? topic.visibleState
        var error: String?
        if case .failed(let reason) = state { error = reason }
        self.init(
            name: topic.name, epoch: topic.epoch, age: now.monotonic - Swift.min(topic.usage.madeAt, now.monotonic),
            state: state.name, error: error, first: topic.retained.value,
            next: topic.committed.value, retained: topic.committed - topic.retained, retention: topic.window.retention,
            bytes: topic.bytes, memory: topic.log.memory, storage: StorageStatistics(topic),
            subscriptions: topic.views.subscriptions + (topic.shared?.waiting ?? 0),
            publishers: publishers.channelCount,
            published: topic.published, delivered: topic.views.delivered, dropped: topic.views.dropped,
            fireAndForgetDropped: losses.dropped, refused: losses.refused, short: losses.short,
            lostSince: losses.shortAt == 0 ? nil : now.monotonic - Swift.min(losses.shortAt, now.monotonic),
            lag: topic.committed - topic.views.needed(atMost: topic.committed),
            activity: topic.activity, overshoot: publishers.overshoot, parked: publishers.parkedCount,
            parkedBytes: publishers.ifAny?.parked.bytes ?? 0, blockedPublishers: publishers.blockedCount,
            waitFor: topic.publishersWaitFor,
            blocked: publishers.blocked.total(now: now.monotonic),
            blockedNow: publishers.blocked.current(now: now.monotonic))
    }
}

extension SubscriptionStatistics {
    /// - Parameter connection: the id of the connection.
    init(_ subscriber: Subscriber, connection: String, now: Instant) {
        let credit = subscriber.credit
        let (lag, age) = subscriber.lag(now: now)
        self.init(
            id: subscriber.id, topic: subscriber.view.name, connection: connection,
            peer: subscriber.connection.peer, user: subscriber.principal.user, stream: subscriber.stream,
            policy: subscriber.options.overflow,
            buffer: subscriber.options.buffer, requested: credit.isUnbounded ? nil : credit.requested,
            outstanding: credit.isUnbounded ? nil : credit.outstanding,
            delivered: subscriber.known { $0.delivered } ?? 0,
            waiting: subscriber.known { $0.waiting } ?? 0, dropped: subscriber.known { $0.dropped } ?? 0,
            missed: subscriber.known { $0.missedAtStart } ?? 0,
            next: subscriber.known { $0.cursor.value } ?? 0, lag: lag, age: age, behind: subscriber.behind(now: now),
            waitsFor: subscriber.waitsFor,
            asked: now.monotonic - Swift.min(subscriber.askedAt, now.monotonic), meta: subscriber.options.meta)
    }
}

extension SubscriptionStatistics {
    /// - Parameter connection: the id of the connection.
    init(_ subscription: PatternSubscription, connection: String, now: Instant) {
        let credit = subscription.credit
        self.init(
            id: subscription.id, topic: subscription.pattern.description, connection: connection,
            peer: subscription.connection.peer, user: subscription.principal.user, stream: subscription.stream,
            policy: subscription.options.overflow, buffer: subscription.options.buffer,
            requested: credit.isUnbounded ? nil : credit.requested,
            outstanding: credit.isUnbounded ? nil : credit.outstanding, delivered: subscription.sums.delivered,
            waiting: subscription.sums.waiting, dropped: subscription.sums.dropped, missed: 0, next: 0,
            lag: subscription.sums.waiting, age: 0, behind: subscription.sums.behind(now: now),
            waitsFor: subscription.waitsFor,
            asked: now.monotonic - Swift.min(subscription.askedAt, now.monotonic), meta: true,
            pattern: Pattern(
                matched: subscription.beginning.matches, cursors: subscription.cursors.count,
                skipped: subscription.sums.skipped))
    }
}

extension Subscriber {
    /// The number of messages by which a subscription is behind its topic, and the age of the oldest of these messages.
    func lag(now: Instant) -> (messages: Int, age: UInt64) {
        guard hasJoined else { return (0, 0) }
        let first = cursor.cursor
        let next = view.isStored ? first : Swift.max(first, view.log.head)
        guard next < view.end, cursor.waiting > 0 else { return (0, 0) }
        // For messages in a store, the age of the first one in memory is used.
        let known = Swift.max(next, view.log.head)
        guard known < view.end else { return (view.end - next, 0) }
        let age = now.wall.subtractingReportingOverflow(view.log.timestamp(known))
        return (view.end - next, age.overflow ? 0 : UInt64(clamping: age.partialValue))
    }

    func behind(now: Instant) -> UInt64 {
        behindSince.map { now.monotonic - Swift.min($0, now.monotonic) } ?? 0
    }

    var waitsFor: WaitsFor {
        guard hasJoined else { return .topic }
        guard cursor.waiting > 0 else { return .nothing }
        return credit.available == 0 ? .credit : .socket
    }
}
