// Statistics: counters of each shard, and the broker's statistics computed from them once a second. Metrics, the admin
// listener's lists and `$SYS.stats` all use them.

import ForebayWire
import Replay

/// What one shard has done since it started, and its current state. All counters only grow, except those of the last
/// group.
public struct ShardCounters: Sendable {
    public var published: UInt64 = 0
    public var delivered: UInt64 = 0
    /// Messages that subscriptions lost, by overflow policy.
    public var dropped = Tally<Overflow>()
    /// Failed publishes: fire-and-forget ones, and all others.
    public var publishesDropped = Tally<PublishLoss>()
    public var publishesRefused = Tally<PublishLoss>()
    /// The topic of a publish that was lost to a shortage since the last report, if known, and the last loss of all.
    var lostTopic = ""
    public var lastLoss: LastLoss?
    /// When a subscription last lost a message against its wishes, on the monotonic clock.
    public var lastDrop: UInt64 = 0
    /// Messages still waiting for credit when a draining broker ended their subscriptions.
    public var undelivered: UInt64 = 0
    /// Messages that exceeded a `block` subscription's buffer.
    public var overshoot: UInt64 = 0
    /// Nanoseconds for which publishers of a topic waited for room, summed over all topics.
    public var blocked: UInt64 = 0
    /// Requests that were refused and streams that failed, and the reasons, except for errors found by a codec.
    public var streamErrors: UInt64 = 0
    public var refusals = Tally<ErrorWord>()
    public var limits = Tally<LimitReached>()
    public var protocolErrors: UInt64 = 0
    public var connectionsOpened: UInt64 = 0
    /// Valid logins, and failed ones. Counted separately are logins that were not verified because too many had failed,
    /// and missing credentials. `denied`: requests that were not allowed.
    public var loginsAccepted: UInt64 = 0
    public var loginsRefused: UInt64 = 0
    public var loginsSlowed: UInt64 = 0
    public var loginsMissing: UInt64 = 0
    public var denied: UInt64 = 0
    /// TLS handshakes completed, and failed.
    public var handshakes: UInt64 = 0
    public var handshakeFailures: UInt64 = 0
    public var subscriptionsOpened: UInt64 = 0
    /// RESUME frames accepted, and refused.
    public var resumptionsAccepted: UInt64 = 0
    public var resumptionsRefused: UInt64 = 0
    public var bytesIn: UInt64 = 0
    public var bytesOut: UInt64 = 0

    public var connections = 0
    /// How many of these connections have no socket and may be resumed.
    public var detached = 0
    public var subscriptions = 0
    /// How many of these subscriptions are to patterns, different patterns, and positions in topics that they have.
    public var patternSubscriptions = 0
    public var patterns = 0
    public var cursors = 0
    public var topics = 0

    public init() {}

    /// Counts the result of a login.
    mutating func count(_ result: LoginResult) {
        switch result {
        case .accepted: loginsAccepted += 1
        case .refused: loginsRefused += 1
        case .slowed: loginsSlowed += 1
        case .missing: loginsMissing += 1
        case .denied: denied += 1
        }
    }

    public mutating func add(_ other: ShardCounters) {
        published &+= other.published
        delivered &+= other.delivered
        dropped.add(other.dropped)
        publishesDropped.add(other.publishesDropped)
        publishesRefused.add(other.publishesRefused)
        if !other.lostTopic.isEmpty { lostTopic = other.lostTopic }
        if let loss = other.lastLoss, loss.at >= lastLoss?.at ?? 0 { lastLoss = loss }
        lastDrop = Swift.max(lastDrop, other.lastDrop)
        undelivered &+= other.undelivered
        overshoot &+= other.overshoot
        blocked &+= other.blocked
        streamErrors &+= other.streamErrors
        refusals.add(other.refusals)
        limits.add(other.limits)
        protocolErrors &+= other.protocolErrors
        connectionsOpened &+= other.connectionsOpened
        subscriptionsOpened &+= other.subscriptionsOpened
        loginsAccepted &+= other.loginsAccepted
        loginsRefused &+= other.loginsRefused
        loginsSlowed &+= other.loginsSlowed
        loginsMissing &+= other.loginsMissing
        denied &+= other.denied
        handshakes &+= other.handshakes
        handshakeFailures &+= other.handshakeFailures
        bytesIn &+= other.bytesIn
        bytesOut &+= other.bytesOut
        resumptionsAccepted &+= other.resumptionsAccepted
        resumptionsRefused &+= other.resumptionsRefused
        connections += other.connections
        detached += other.detached
        subscriptions += other.subscriptions
        patternSubscriptions += other.patternSubscriptions
        patterns += other.patterns
        cursors += other.cursors
        topics += other.topics
    }
}

/// The latest counters of every shard, held by the shard that owns `$SYS.stats`.
struct Statistics {
    private var latest: [ShardCounters]
    private var before = ShardCounters()
    private var beforeAt: UInt64 = 0
    /// The losses between the last two JSON objects.
    private(set) var loss: LogRecord?

    init(shards: Int) { latest = Array(repeating: ShardCounters(), count: shards) }

    /// Replaces a shard's counters. A shard may report twice before the next object: the topic in the first report is
    /// still needed.
    mutating func take(_ counters: ShardCounters, from shard: Int) {
        let topic = latest[shard].lostTopic
        latest[shard] = counters
        if counters.lostTopic.isEmpty { latest[shard].lostTopic = topic }
    }

    /// One JSON object: totals, and rates since the last one.
    mutating func object(
        memory: Int, limit: Int, isStoreFailed: Bool = false, upstream: UpstreamStatus? = nil, now: Instant
    ) -> JSONObject {
        var total = ShardCounters()
        for counters in latest { total.add(counters) }
        let seconds = beforeAt == 0 ? 1 : Double(now.monotonic - beforeAt) / 1e9
        func rate(_ now: UInt64, _ before: UInt64) -> UInt64 {
            UInt64(Double(now &- before) / Swift.max(seconds, 1e-3))
        }
        var object = JSONObject()
        object.add("time_ns", now.wall)
        object.add("connections", total.connections)
        object.add("detached", total.detached)
        object.add("subscriptions", total.subscriptions)
        object.add("pattern_subscriptions", total.patternSubscriptions)
        object.add("patterns", total.patterns)
        object.add("cursors", total.cursors)
        object.add("topics", total.topics)
        object.add("memory", memory)
        object.add("memory_limit", limit)
        if isStoreFailed { object.add("store_failed", true) }
        if let upstream { object.add("upstream", json: upstream.json(now: now.monotonic)) }
        object.add("published", total.published)
        object.add("published_per_s", rate(total.published, before.published))
        object.add("delivered", total.delivered)
        object.add("delivered_per_s", rate(total.delivered, before.delivered))
        object.add("dropped", total.dropped.total)
        object.add("dropped_per_s", rate(total.dropped.total, before.dropped.total))
        object.add("fire_and_forget_dropped", total.fireAndForgetDropped)
        object.add("publishes_refused", total.publishesRefused.total)
        object.add("lost", total.lost)
        for shortage in PublishLoss.shortages {
            object.add(shortage.field, total.lost(to: shortage))
        }
        object.add("lost_per_s", rate(total.lost, before.lost))
        object.add("blocked_ms", total.blocked / 1_000_000)
        object.add("bytes_in", total.bytesIn)
        object.add("bytes_in_per_s", rate(total.bytesIn, before.bytesIn))
        object.add("bytes_out", total.bytesOut)
        object.add("bytes_out_per_s", rate(total.bytesOut, before.bytesOut))
        object.add("stream_errors", total.streamErrors)
        object.add("protocol_errors", total.protocolErrors)
        object.add("logins_accepted", total.loginsAccepted)
        object.add("logins_refused", total.loginsRefused)
        object.add("logins_slowed", total.loginsSlowed)
        object.add("logins_missing", total.loginsMissing)
        object.add("denied", total.denied)
        object.add("resumptions_accepted", total.resumptionsAccepted)
        object.add("resumptions_refused", total.resumptionsRefused)
        object.add("tls_handshakes", total.handshakes)
        object.add("tls_handshake_failures", total.handshakeFailures)
        loss = total.lossRecord(since: before)
        for shard in latest.indices { latest[shard].lostTopic = "" }
        before = total
        beforeAt = now.monotonic
        return object
    }
}

/// Reports this shard's counters to the owner of `$SYS.stats`, or publishes them if this shard owns that topic.
final class BrokerStatistics: ShardPart {
    let timers: Timers
    let connections: ConnectionTable
    let topics: TopicTable
    let subscriptions: SubscriptionTable
    let patterns: PatternTable
    let rateLimiter: RateLimiter
    let events: Events

    init(
        _ context: ShardContext, _ timers: Timers, _ connections: ConnectionTable, _ topics: TopicTable,
        _ subscriptions: SubscriptionTable, _ patterns: PatternTable, _ rateLimiter: RateLimiter, _ events: Events
    ) {
        self.timers = timers
        self.connections = connections
        self.topics = topics
        self.subscriptions = subscriptions
        self.patterns = patterns
        self.rateLimiter = rateLimiter
        self.events = events
        statistics = Statistics(shards: context.shards)
        super.init(context)
    }

    private var statistics: Statistics
    /// The latest state of the upstream; nil if there is none.
    private var upstream: UpstreamStatus?

    /// The counters, updated with the current state.
    func currentCounters() -> ShardCounters {
        topics.countBlocked(0, now: moment.monotonic)
        counters.connections = connections.count
        counters.subscriptions = subscriptions.count
        counters.patternSubscriptions = subscriptions.patternCount
        // All shards' patterns, counted once.
        counters.patterns = index == 0 ? quotas.patterns.value : 0
        counters.cursors = patterns.cursors
        counters.topics = topics.namedCount
        return counters
    }

    /// Takes the counters of another shard.
    func take(_ counters: ShardCounters, from shard: Int) { statistics.take(counters, from: shard) }

    /// Takes the state of the upstream. The shard that owns `$SYS.events` reports if the connection was made or lost.
    func take(_ status: UpstreamStatus) {
        defer { upstream = status }
        guard owner(of: SystemTopic.events) == index else { return }
        let before = upstream
        if status.counts.connections != before?.counts.connections ?? 0 {
            events.event("upstream-connected", server: status.server)
        } else if !status.isConnected, let before, before.isConnected {
            events.event("upstream-lost", server: before.server, reason: status.cause)
        }
    }

    /// Reports or publishes this shard's counters. Called once a second.
    func report(now: Instant) {
        timers.nextStatistics = now.monotonic + Limits.second
        rateLimiter.sweep()
        let counters = currentCounters()
        // The next second may name another topic.
        self.counters.lostTopic = ""
        let owner = owner(of: SystemTopic.stats)
        if owner == index {
            statistics.take(counters, from: index)
            events.publishSystem(
                SystemTopic.stats,
                statistics.object(
                    memory: memory.used, limit: memory.limit, isStoreFailed: store.hasFailed, upstream: upstream,
                    now: now
                ).bytes(),
                now: now)
            if let loss = statistics.loss { effects.log.append(loss) }
        } else {
            send(.stats(shard: index, counters), to: owner)
        }
    }
}
