// ConnectionCount: the number of connections of the whole broker, the only counter that all threads share.

import Core
import Synchronization

/// Incremented when a connection is accepted and decremented when it is closed, by any thread.
final class ConnectionCount: Sendable {
    private let count = Atomic<Int>(0)
    private let most: Atomic<Int>
    private let shortages = Atomic<Int>(0)
    private let overQuota = Atomic<Int>(0)
    private let overAddress = Atomic<Int>(0)
    private let drained = Atomic<Int>(0)
    private let overLimit = Atomic<Int>(0)

    init(limit: Int) { most = Atomic(limit) }

    /// Maximum number of connections. Existing ones are kept if there are more.
    var limit: Int {
        get { most.load(ordering: .relaxed) }
        set { most.store(newValue, ordering: .relaxed) }
    }

    /// Counts a new connection. Returns false if that would exceed the limit.
    func add() -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        remove()
        overLimit.add(1, ordering: .relaxed)
        return false
    }

    func remove() {
        count.subtract(1, ordering: .relaxed)
    }

    /// Counts a connection that could not be accepted for lack of files or memory.
    func noteShortage() { shortages.add(1, ordering: .relaxed) }

    /// Counts a refused connection.
    func note(_ refusal: ConnectionRefusal) {
        switch refusal {
        case .connections: overQuota.add(1, ordering: .relaxed)
        case .connectionsPerAddress: overAddress.add(1, ordering: .relaxed)
        case .files: noteShortage()
        case .draining: drained.add(1, ordering: .relaxed)
        }
    }

    /// How often the limit was reached.
    var limitReached: UInt64 { UInt64(overLimit.load(ordering: .relaxed)) }

    /// Refused connections by reason.
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
