// Pulse: whether every thread of the broker gets round to its inbox.

import Synchronization

/// One question at a time: it is pushed into every inbox, and counted down as the threads come upon it.
final class Pulse: Sendable {
    private let unanswered = Atomic<Int>(0)

    /// Everybody has answered what was asked last.
    var isSteady: Bool { unanswered.load(ordering: .acquiring) == 0 }

    /// Begins a question that `count` threads are to answer; only when `isSteady`.
    func ask(_ count: Int) {
        precondition(isSteady)
        unanswered.store(count, ordering: .releasing)
    }

    func answer() { unanswered.subtract(1, ordering: .acquiringAndReleasing) }
}
