// BrokerFigures: what all shards told, put together.

import Core

/// What a loop measures of itself since it began.
struct LoopFigures: Sendable {
    /// Upper ends of the buckets that turns are counted in, in nanoseconds; one more bucket is without an end.
    static let bounds: [UInt64] = [
        25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000,
        100_000_000, 250_000_000, 1_000_000_000,
    ]
    /// How many turns took so long, bucket by bucket.
    var turns = InlineArray<15, UInt64>(repeating: 0)
    /// Nanoseconds of all of them.
    var busy: UInt64 = 0
    /// The most processor time that one of them used, or up to `sampling` more: short turns are measured together,
    /// as asking costs a system call.
    private(set) var mostWork: UInt64 = 0
    static let sampling: UInt64 = 1_000_000
    /// When the thread's processor time was asked last, and what it was.
    private var asked: (at: UInt64, work: UInt64)?

    /// A turn ended at `end`. `work` tells the processor time that the thread has used; it is called at most once for
    /// every `sampling` nanoseconds.
    mutating func record(_ nanoseconds: UInt64, end: UInt64, work: () -> UInt64) {
        record(nanoseconds)
        if let asked, end - asked.at < LoopFigures.sampling { return }
        let now = work()
        if let asked { mostWork = max(mostWork, now - asked.work) }
        asked = (end, now)
    }

    mutating func record(_ nanoseconds: UInt64) {
        busy &+= nanoseconds
        var bucket = 0
        while bucket < LoopFigures.bounds.count, nanoseconds > LoopFigures.bounds[bucket] { bucket += 1 }
        turns[bucket] &+= 1
    }

    mutating func add(_ other: LoopFigures) {
        busy &+= other.busy
        mostWork = max(mostWork, other.mostWork)
        for bucket in turns.indices { turns[bucket] &+= other.turns[bucket] }
    }
}

/// The latest that a shard has told.
struct ShardFigures: Sendable {
    var counters = ShardCounters()
    var loop = LoopFigures()
    var isResponding = true
}

/// One picture of the whole broker.
struct BrokerFigures: Sendable {
    /// What a shard told earlier stands for what it did not tell now.
    var shards: [ShardFigures]
    var topicSums = TopicSums()
    var topics: [TopicFigures] = []
    var byTopic: [String: SubscriptionSums] = [:]
    var connections = ConnectionSums()
    var subscriptionSums = SubscriptionSums()
    var subscriptions: [SubscriptionFigures] = []
    /// How many there are of what was looked for.
    var topicsFound = 0
    var subscriptionsFound = 0
    var behind: [BehindPair] = []

    var counters: ShardCounters {
        var sum = ShardCounters()
        for shard in shards { sum.add(shard.counters) }
        return sum
    }

    var loop: LoopFigures {
        var sum = LoopFigures()
        for shard in shards { sum.add(shard.loop) }
        return sum
    }

    /// Shards that did not answer in time.
    var missing: [Int] { shards.indices.filter { !shards[$0].isResponding } }
}
