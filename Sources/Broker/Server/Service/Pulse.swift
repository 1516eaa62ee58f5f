// Pulse: checks that every thread of the broker still handles its inbox.

import Synchronization

/// One probe at a time: it is pushed into every inbox and counted down as the threads handle it.
final class Pulse: Sendable {
    private let unanswered = Atomic<Int>(0)

    /// Whether every thread has answered the last probe.
    var isSteady: Bool { unanswered.load(ordering: .acquiring) == 0 }

    /// Starts a probe that `count` threads must answer. Requires `isSteady`.
    func ask(_ count: Int) {
        precondition(isSteady)
        unanswered.store(count, ordering: .releasing)
    }

    func answer() { unanswered.subtract(1, ordering: .acquiringAndReleasing) }
}
