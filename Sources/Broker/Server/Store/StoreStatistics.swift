// StoreStatistics: counts of what the store's threads do. The writer and the readers add to them, and the admin thread
// reads them. Only what belongs to a whole transaction is under a lock.

import Core
import EventLoop
import Store
import Synchronization

/// Counts of values by size.
final class StoreHistogram: Sendable {
    /// Upper bounds of the buckets; one more bucket is unbounded.
    private let bounds: [UInt64]
    private let counts: [Counter]
    private let sum = Counter()

    init(_ bounds: [UInt64]) {
        self.bounds = bounds
        counts = (0...bounds.count).map { _ in Counter() }
    }

    func record(_ value: UInt64) {
        counts[bounds.firstIndex { value <= $0 } ?? bounds.count].add(1)
        sum.add(Int(clamping: value))
    }

    var snapshot: HistogramSnapshot {
        HistogramSnapshot(bounds: bounds, counts: counts.map { UInt64($0.value) }, sum: UInt64(sum.value))
    }
}

struct HistogramSnapshot: Sendable {
    var bounds: [UInt64]
    /// By bucket; the last one has no bound.
    var counts: [UInt64]
    var sum: UInt64
}

/// What went wrong, as in metrics.
enum StoreErrorKind: Int, CaseIterable, Sendable {
    /// A commit found no room, or failed without writing anything.
    case full, aborted
    /// A write or a sync failed.
    case failed
    /// Stored messages could not be read.
    case unreadable

    var name: String {
        switch self {
        case .full: "full"
        case .aborted: "aborted"
        case .failed: "failed"
        case .unreadable: "unreadable"
        }
    }

    fileprivate init(_ failure: StoreFailure) {
        switch failure {
        case .full: self = .full
        case .aborted: self = .aborted
        case .unknown: self = .failed
        }
    }
}

final class StoreStatistics: Sendable {
    static let latencyBounds: [UInt64] = [
        100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000,
        250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000, 10_000_000_000,
    ]
    static let sizeBounds: [UInt64] = [
        1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26,
    ]
    /// Nanoseconds between two warnings about failed commits of the same kind.
    static let warningInterval: UInt64 = 60_000_000_000

    private let latencies = StoreHistogram(latencyBounds)
    private let sizes = StoreHistogram(sizeBounds)
    private let batches = Counter()
    private let reads = Counter()
    private let readMessages = Counter()
    private let readBytes = Counter()
    private let errors = StoreErrorKind.allCases.map { _ in Counter() }
    /// Why the store has failed; nil while it has not.
    private let failure = Mutex<String?>(nil)

    /// What only the writer's thread uses.
    private struct Latest {
        /// The last transaction that was counted, and the last one with an error of each kind.
        var transaction: UInt64 = 0
        var failed: [StoreErrorKind: UInt64] = [:]
        /// When a warning of each kind may be logged again.
        var silentUntil: [StoreErrorKind: UInt64] = [:]
    }
    private let latest = Mutex(Latest())

    /// Counts a transaction's outcomes for one shard, and logs failures. The writer's thread calls it for each shard.
    func note(_ outcomes: [StoreOutcome], _ cost: CommitCost, now: UInt64, log: Log) {
        let isNew = latest.withLock { latest in
            defer { latest.transaction = cost.transaction }
            return latest.transaction != cost.transaction
        }
        if isNew {
            latencies.record(cost.nanoseconds)
            sizes.record(UInt64(cost.bytes))
            batches.add(cost.batches)
        }
        // All outcomes of a shard in one transaction are the same.
        guard let outcome = outcomes.first, let reason = outcome.failure, let error = outcome.error else { return }
        let kind = StoreErrorKind(reason)
        let (isFirst, isLogged) = latest.withLock { latest in
            guard latest.failed.updateValue(cost.transaction, forKey: kind) != cost.transaction else {
                return (false, false)
            }
            guard now >= latest.silentUntil[kind, default: 0] else { return (true, false) }
            latest.silentUntil[kind] = kind == .failed ? .max : now + StoreStatistics.warningInterval
            return (true, true)
        }
        if isFirst { errors[kind.rawValue].add(1) }
        guard isLogged else { return }
        switch kind {
        case .full: log.write(.warning, "store is full", [("effect", "publishes to stored topics are rejected")])
        case .failed:
            failure.withLock { $0 = error.description }
            log.write(
                .error, "store failed",
                [("cause", error.description), ("effect", "stored topics are read-only until a restart")])
        case .aborted, .unreadable: log.write(.warning, "commit aborted", [("cause", error.description)])
        }
    }

    func noteRead(_ result: StoreRead) {
        reads.add(1)
        switch result {
        case .found(let batches):
            readMessages.add(batches.reduce(0) { $0 + $1.count })
            readBytes.add(batches.reduce(0) { $0 + $1.body.bytes.count })
        case .gone: break
        case .unreadable: errors[StoreErrorKind.unreadable.rawValue].add(1)
        }
    }

    func fill(_ snapshot: inout StoreSnapshot) {
        snapshot.failure = failure.withLock { $0 }
        snapshot.latencies = latencies.snapshot
        snapshot.sizes = sizes.snapshot
        snapshot.batches = UInt64(batches.value)
        snapshot.reads = UInt64(reads.value)
        snapshot.readMessages = UInt64(readMessages.value)
        snapshot.readBytes = UInt64(readBytes.value)
        snapshot.errors = StoreErrorKind.allCases.map { ($0.name, UInt64(errors[$0.rawValue].value)) }
    }
}

/// A snapshot of the store's statistics.
struct StoreSnapshot: Sendable {
    /// Size of the store in bytes, without its reserve, and the limit on it.
    var used: UInt64
    var limit: UInt64
    /// Bytes of messages that are not written yet, and the limit on them.
    var uncommitted: Int
    var uncommittedLimit: Int
    /// Whether the store takes no messages until a restart, and why.
    var hasFailed = false
    var failure: String?
    /// Whether the last commit found no room.
    var isFull = false
    var latencies = HistogramSnapshot(bounds: [], counts: [0], sum: 0)
    var sizes = HistogramSnapshot(bounds: [], counts: [0], sum: 0)
    var batches: UInt64 = 0
    var reads: UInt64 = 0
    var readMessages: UInt64 = 0
    var readBytes: UInt64 = 0
    var errors: [(kind: String, count: UInt64)] = []

    /// The store as a part of the broker's statistics.
    var json: String {
        var object = JSONObject()
        object.add("failed", hasFailed)
        object.add("full", isFull)
        object.add("bytes", used)
        object.add("bytes_limit", limit)
        object.add("uncommitted_bytes", uncommitted)
        object.add("uncommitted_bytes_limit", uncommittedLimit)
        object.add("commits", latencies.counts.reduce(0, &+))
        object.add("commit_ms_total", latencies.sum / 1_000_000)
        object.add("batches", batches)
        object.add("bytes_written", sizes.sum)
        object.add("reads", reads)
        object.add("bytes_read", readBytes)
        var kinds = JSONObject()
        for (kind, count) in errors { kinds.add(kind, count) }
        object.add("errors", json: kinds.finished())
        return object.finished()
    }
}
