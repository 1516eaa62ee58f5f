// JetStreamCheck: asks from time to time whether JetStream works. A connection to a NATS server does not show it: the
// server may have no JetStream, the node no permission for it, or the cluster no majority.
//
//     idle ──the link is ready──▶ due ──asked──▶ waiting ──an answer, or none in time──▶ due, after a while

struct JetStreamCheck {
    private enum State {
        case idle
        case due(UInt64)
        case waiting(since: UInt64)
    }

    /// Nanoseconds between two questions while JetStream works.
    private static let interval = 5 * TopicFeed.second
    /// Nanoseconds between two questions while it does not.
    private static let retry = TopicFeed.second
    /// Nanoseconds until a question that could not be written is tried again.
    private static let writeRetry = TopicFeed.second / 10
    /// Nanoseconds for an answer.
    private static let time = 2 * TopicFeed.second
    /// Consecutive failures from which on JetStream counts as unreachable: a single answer may be lost.
    private static let mostFailures = 2

    private var state = State.idle
    private(set) var number: UInt64 = 0
    private var failures = 0
    /// When the first of these failures was asked for.
    private var failingSince: UInt64 = 0

    /// When to call `isOverdue` and `isDue`.
    var deadline: UInt64 {
        switch state {
        case .idle: .max
        case .due(let time): time
        case .waiting(let since): since + JetStreamCheck.time
        }
    }

    var isWaiting: Bool { if case .waiting = state { true } else { false } }
    /// Whether a question has no answer in time.
    func isOverdue(now: UInt64) -> Bool { isWaiting && deadline <= now }
    /// Whether to ask now.
    func isDue(now: UInt64) -> Bool { !isWaiting && deadline <= now }

    mutating func begin(now: UInt64) {
        state = .due(now)
        failures = 0
    }

    mutating func stop() { state = .idle }

    /// The number of the next question.
    mutating func nextNumber() -> UInt64 {
        number += 1
        return number
    }

    mutating func asked(now: UInt64, wasWritten: Bool) {
        state = wasWritten ? .waiting(since: now) : .due(now + JetStreamCheck.writeRetry)
    }

    mutating func succeeded(now: UInt64) {
        state = .due(now + JetStreamCheck.interval)
        failures = 0
    }

    /// JetStream has sent or stored a message, so it works, even if the answer to a question is late.
    mutating func noteWork() { failures = 0 }

    /// Returns since when JetStream is unreachable; nil if that is not certain yet.
    mutating func failed(now: UInt64) -> UInt64? {
        if failures == 0, case .waiting(let since) = state { failingSince = since }
        failures += 1
        state = .due(now + JetStreamCheck.retry)
        return failures >= JetStreamCheck.mostFailures ? failingSince : nil
    }
}
