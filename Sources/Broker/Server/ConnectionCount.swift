// ConnectionCount: how many connections the whole broker has, the one figure that the threads share.

import Core
import Synchronization

/// Counted up when a connection is accepted and down when it is closed, by whichever thread does so.
final class ConnectionCount: Sendable {
    private let count = Atomic<Int>(0)
    private let most: Atomic<Int>
    private let shortages = Atomic<Int>(0)
    private let overQuota = Atomic<Int>(0)
    private let overAddress = Atomic<Int>(0)
    private let drained = Atomic<Int>(0)
    private let overLimit = Atomic<Int>(0)

    init(limit: Int) { most = Atomic(limit) }

    /// How many there may be. Where there are more already, they stay.
    var limit: Int {
        get { most.load(ordering: .relaxed) }
        set { most.store(newValue, ordering: .relaxed) }
    }

    /// False when that would be one too many.
    func add() -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        remove()
        overLimit.add(1, ordering: .relaxed)
        return false
    }

    func remove() {
        count.subtract(1, ordering: .relaxed)
    }

    /// A connection could not be accepted for want of files or memory.
    func noteShortage() { shortages.add(1, ordering: .relaxed) }

    /// A connection was refused by a shard.
    func note(_ refusal: ConnectionRefusal) {
        switch refusal {
        case .connections: overQuota.add(1, ordering: .relaxed)
        case .connectionsPerAddress: overAddress.add(1, ordering: .relaxed)
        case .files: noteShortage()
        case .draining: drained.add(1, ordering: .relaxed)
        }
    }

    /// How often there would have been one too many.
    var limitReached: UInt64 { UInt64(overLimit.load(ordering: .relaxed)) }

    /// Connections that were refused, by reason.
    var refused: [(reason: String, count: UInt64)] {
        [
            ("files", UInt64(shortages.load(ordering: .relaxed))),
            ("connections", limitReached &+ UInt64(overQuota.load(ordering: .relaxed))),
            ("connections-per-address", UInt64(overAddress.load(ordering: .relaxed))),
            ("draining", UInt64(drained.load(ordering: .relaxed))),
        ]
    }

    var value: Int { count.load(ordering: .relaxed) }
}
