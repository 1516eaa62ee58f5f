// ConnectionCount: how many connections the whole broker has, the one figure that the threads share.

import Synchronization

/// Counted up when a connection is accepted and down when it is closed, by whichever thread does so.
final class ConnectionCount: Sendable {
    private let count = Atomic<Int>(0)
    private let most: Atomic<Int>

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
        return false
    }

    func remove() {
        count.subtract(1, ordering: .relaxed)
    }

    var value: Int { count.load(ordering: .relaxed) }
}
