// BrokerStatistics: the statistics of all shards, combined.

import Core

/// A loop's measurements since its start.
struct LoopStatistics: Sendable {
    /// Upper bounds of the buckets for durations of turns, in nanoseconds; one more bucket is unbounded.
    static let bounds: [UInt64] = [
        25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000,
        100_000_000, 250_000_000, 1_000_000_000,
    ]
    /// Number of turns by bucket.
    var turns = InlineArray<15, UInt64>(repeating: 0)
    /// Total duration of all turns in nanoseconds.
    var busy: UInt64 = 0
    /// The maximum CPU time of a turn, with an error of up to `sampling`: short turns are measured together, because
    /// each measurement costs a system call.
    private(set) var mostWork: UInt64 = 0
    static let sampling: UInt64 = 1_000_000
    /// The time and the thread's CPU time at the last measurement.
    private var asked: (at: UInt64, work: UInt64)?

    /// Records a turn that ended at `end`. `work` returns the CPU time of the thread; it is called at most once every
    /// `sampling` nanoseconds.
    mutating func record(_ nanoseconds: UInt64, end: UInt64, work: () -> UInt64) {
        record(nanoseconds)
        if let asked, end - asked.at < LoopStatistics.sampling { return }
        let now = work()
        if let asked { mostWork = max(mostWork, now - asked.work) }
        asked = (end, now)
    }

    mutating func record(_ nanoseconds: UInt64) {
        busy &+= nanoseconds
        var bucket = 0
        while bucket < LoopStatistics.bounds.count, nanoseconds > LoopStatistics.bounds[bucket] { bucket += 1 }
        turns[bucket] &+= 1
    }

    mutating func add(_ other: LoopStatistics) {
        busy &+= other.busy
        mostWork = max(mostWork, other.mostWork)
        for bucket in turns.indices { turns[bucket] &+= other.turns[bucket] }
    }
}

/// The latest statistics of a shard.
struct ShardStatistics: Sendable {
    var counters = ShardCounters()
    var loop = LoopStatistics()
    var isResponding = true
}

/// A snapshot of the whole broker.
struct BrokerStatistics: Sendable {
    /// A shard that did not answer keeps its earlier values.
    var shards: [ShardStatistics]
    var topicSums = TopicSums()
    var topics: [TopicStatistics] = []
    var byTopic: [String: SubscriptionSums] = [:]
    var connections = ConnectionSums()
    var subscriptionSums = SubscriptionSums()
    var subscriptions: [SubscriptionStatistics] = []
    /// The number of topics that match the search.
    var topicsFound = 0
    var subscriptionsFound = 0
    var behind: [BehindPair] = []

    var counters: ShardCounters {
        var sum = ShardCounters()
        for shard in shards { sum.add(shard.counters) }
        return sum
    }

    var loop: LoopStatistics {
        var sum = LoopStatistics()
        for shard in shards { sum.add(shard.loop) }
        return sum
    }

    /// Shards that did not respond in time.
    var missing: [Int] { shards.indices.filter { !shards[$0].isResponding } }
}
