// Shard: the broker engine of one thread, without I/O, clock or randomness of its own. A loop (or a simulator) feeds it
// inputs and carries out its effects.
//
// A connection lives on one shard, with its subscribers and publishers. A topic is owned by one shard, which its name
// chooses. Where they differ, mail goes between them. After each input everything that it touched is settled: views
// advance, output is queued, publishers are granted and acknowledged.

import Bytes
import Replay

public final class Shard {
    /// What all parts use.
    let context: ShardContext
    let peers: PeerState
    /// Who may do what; `reload` sets another one.
    var access: AccessTable

    // Connections and their streams
    var connections = Slab<Connection>()
    var streams = Slab<BoundStream>()
    /// Those whose output has room that no socket made.
    var roomyConnections: [Connection] = []
    let subscriptions: SubscriptionTable
    /// Of topics that connections here subscribe to.
    let views = ViewTable()
    /// Those that this shard owns.
    let topics: TopicTable
    /// What gives way when memory is short.
    let relief: MemoryRelief
    /// Who is stuck in what topics let go of, while that takes too much memory.
    var unread: UnreadMemory?
    /// Publishes were refused for want of memory between the last two ticks.
    var isRefusing = false
    /// How many had been at the last one, on all threads.
    var refusedBefore: UInt64 = 0
    /// Channels of publishers on other shards.
    var remoteChannels = PartitionedDictionary<StreamKey, Channel>()
    var pages = ListPages()
    let forwarding: Forwarding

    /// How fast users may publish.
    let rateLimiter: RateLimiter
    /// On the shard that owns `$SYS.stats`: the figures of all shards.
    var statistics: Statistics
    /// What this shard is to look at when its time has come.
    var timers: Timers
    /// Members of a view that are brought a message before others have their turn; a simulation has few.
    package var slice = Mirror.slice
    /// What other shards are told together.
    var reports: Reports
    let started: UInt64

    /// - Parameters:
    ///   - index: this shard's place among `count`.
    ///   - memory: the budget that all shards of the broker share.
    ///   - quotas: what is counted over all of them.
    ///   - seed: randomness for epochs; the only randomness that the engine gets.
    ///   - access: who may do what, until `reload`.
    public init(
        index: Int, count: Int, limits: Limits, memory: MemoryBudget, quotas: Quotas = Quotas(), seed: UInt64,
        access: AccessTable = .open, now: Instant
    ) {
        context = ShardContext(
            index: index, shards: count, limits: limits, memory: memory, quotas: quotas, seed: seed, now: now)
        topics = TopicTable(context: context)
        relief = MemoryRelief(context: context, topics: topics)
        subscriptions = SubscriptionTable(context: context)
        forwarding = Forwarding(context: context)
        self.access = access
        rateLimiter = RateLimiter(context: context)
        peers = PeerState(limits)
        statistics = Statistics(shards: count)
        reports = Reports(shards: count)
        started = now.monotonic
        timers = Timers(now: now.monotonic)
    }

    /// New limits, in force from the next input on. A connection keeps those of its protocol (payload, metadata,
    /// streams) that it was opened with; topics take what they retain at once, or where there are many in turn.
    public func adopt(_ limits: Limits, now: Instant) {
        moment = now
        context.adopt(limits)
        rateLimiter.adopt()
        // Those who wait are looked at by the new rates.
        rateLimiter.payWaiting(self, now: now)
        peers.adopt(limits)
        sweep(.settings, now: now)
        settle(now)
    }

    /// A topic takes on what the settings say of it now.
    func adopt(_ topic: Topic, now: Instant) {
        topic.retain(limits.retention(of: topic.name), now: now)
        topic.markDirty()
    }

    // What all parts use

    public var effects: Effects {
        unsafeAddress { UnsafePointer(context.effectsPlace) }
        unsafeMutableAddress { context.effectsPlace }
    }
    var counters: ShardCounters {
        @inline(__always) _read { yield context.counters }
        @inline(__always) _modify { yield &context.counters }
    }
    var work: Work {
        @inline(__always) _read { yield context.work }
        @inline(__always) _modify { yield &context.work }
    }
    var limits: Limits { @inline(__always) _read { yield context.limits } }
    var moment: Instant {
        @inline(__always) get { context.moment }
        @inline(__always) set { context.moment = newValue }
    }
    var index: Int { context.index }
    var shards: Int { context.shards }
    var memory: MemoryBudget { context.memory }
    var quotas: Quotas { context.quotas }
    var pool: BlockPool { context.pool }
    var draining: Bool {
        get { context.draining }
        set { context.draining = newValue }
    }

    func random() -> UInt64 { context.random() }
    func send(_ content: Mail.Content, to shard: Int) { context.send(content, to: shard) }
    func log(_ level: LogRecord.Level, _ message: String, _ fields: [LogField] = []) {
        context.log(level, message, fields)
    }
    func reached(_ limit: LimitReached) { context.reached(limit) }
    func refusal(at limit: LimitReached, _ text: String) -> Refusal { context.refusal(at: limit, text) }

    // Effects

    /// When `fire` is to be called at the latest, on the monotonic clock.
    public var deadline: UInt64? { Swift.min(timers.nextTick, rateLimiter.nextPayment) }

    /// No connection is left: a draining shard is done.
    public var isIdle: Bool { connections.count == 0 }
    /// Messages that still waited for credit when the shard, draining, ended their subscriptions.
    public var undelivered: UInt64 { counters.undelivered }

    // Within

    /// The shard that a topic lives on, by its name.
    func owner(of name: String) -> Int { Shard.owner(of: name, among: shards) }

    static func owner(of name: String, among shards: Int) -> Int {
        // FNV-1a: any spread will do, but each shard must find the same.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return Int((hash >> 8) % UInt64(shards))
    }

    /// The connection has something to write.
    func flush(_ connection: Connection) {
        timers.touch(connection)
        guard !connection.isFlushing, !connection.output.blocked else { return }
        connection.isFlushing = true
        effects.flush.append(connection.id)
    }

    /// Carries on until nothing that the input touched is unsettled.
    func settle(_ now: Instant) {
        rateLimiter.putTokensBack()
        sendOutgoing()
        while topics.hasDirty || views.hasDirty || !roomyConnections.isEmpty {
            pool.look()
            while let connection = roomyConnections.popLast() { feedRoomy(connection, now: now) }
            while let topic = topics.nextDirty() { topic.settle(now: now) }
            while let mirror = views.nextDirty() { report(mirror, now: now) }
        }
        if reports.isDue { sendReports() }
    }
}
