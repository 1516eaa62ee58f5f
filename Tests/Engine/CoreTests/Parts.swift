// Parts of a shard, for tests that inspect one.

@testable import Core

extension Shard {
    var topics: TopicTable { parts.tables.topics }
    var views: ViewTable { parts.output.views }
    var streams: StreamTable { parts.tables.streams }
    var connections: ConnectionTable { parts.tables.connections }
    var subscriptions: SubscriptionTable { parts.tables.subscriptions }
    var rateLimiter: RateLimiter { parts.tables.rateLimiter }
    var forwarding: Forwarding { parts.tables.forwarding }
    var timers: Timers { parts.tables.timers }
    var relief: MemoryRelief { parts.tables.relief }
    var peers: PeerState { parts.tables.peers }
    var access: AccessTable { parts.tables.authorization.access }
    var memory: MemoryBudget { context.memory }
    var limits: Limits { context.limits }
    var quotas: Quotas { context.quotas }
    var pool: BlockPool { context.pool }
    var index: Int { context.index }
    var counters: ShardCounters { context.counters }
    var work: Work {
        get { context.work }
        set { context.work = newValue }
    }

    func find(_ id: ConnectionID) -> Connection? { connections.find(id) }
    func owner(of name: String) -> Int { Shard.owner(of: name, among: context.shards) }
    func currentCounters() -> ShardCounters { parts.requests.statistics.currentCounters() }
    func isSweeping(_ reason: Sweep.Reason) -> Bool { parts.turn.scheduler.isSweeping(reason) }
    var pages: ListPages { parts.requests.listRequests.pages }
}

extension Channel {
    /// Whether the publisher waits in the queue for credit and has none.
    var isStarved: Bool { if case .starved = turn { true } else { false } }
}
