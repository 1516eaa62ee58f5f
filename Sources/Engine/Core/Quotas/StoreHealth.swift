// StoreHealth: whether the store takes messages. The driver notes what became of commits; all shards refuse publishes
// that the store would not take.

import Synchronization

/// The state of a broker's store, shared by its shards.
public final class StoreHealth: Sendable {
    /// How long publishes are refused after a commit found no room, in nanoseconds. The next one tries again.
    private static let fullTime = Limits.second

    private let failed = Atomic<Bool>(false)
    private let fullUntil = Atomic<UInt64>(0)
    private let uncommittedCounter = Counter()

    public init() {}

    /// Whether a write has failed: the store takes nothing until the broker is restarted.
    public var hasFailed: Bool { failed.load(ordering: .relaxed) }
    /// Whether the last commit found no room, on the monotonic clock.
    public func isFull(now: UInt64) -> Bool { now < fullUntil.load(ordering: .relaxed) }

    /// A commit was not made.
    public func note(_ failure: StoreFailure, now: UInt64) {
        switch failure {
        case .full: fullUntil.store(now + StoreHealth.fullTime, ordering: .relaxed)
        case .aborted: break
        case .unknown: failed.store(true, ordering: .relaxed)
        }
    }

    /// Bytes of messages that are not on disk yet, on all shards.
    public var uncommitted: Int { uncommittedCounter.value }
    func addUncommitted(_ change: Int) { if change != 0 { uncommittedCounter.add(change) } }

    /// Why a message for a stored topic is refused; nil if it is acceptable.
    func refusal(now: UInt64) -> Refusal? {
        if hasFailed { return Refusal.storeFailed }
        return isFull(now: now) ? Refusal.store(.full) : nil
    }
}
