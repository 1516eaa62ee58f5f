// ConnectionCount: how many connections the whole broker has, the one figure that the threads share.

import Synchronization

/// Counted up when a connection is accepted and down when it is closed, by whichever thread does so.
final class ConnectionCount: Sendable {
    private let count = Atomic<Int>(0)
    private let most: Atomic<Int>
    private let refusals = Atomic<Int>(0)
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

    /// A connection was closed at once.
    func noteRefusal() { refusals.add(1, ordering: .relaxed) }

    /// How often there would have been one too many.
    var limitReached: UInt64 { UInt64(overLimit.load(ordering: .relaxed)) }

    var refused: UInt64 { UInt64(refusals.load(ordering: .relaxed)) }

    var value: Int { count.load(ordering: .relaxed) }
}
