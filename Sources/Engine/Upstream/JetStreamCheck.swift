// JetStreamCheck: asks from time to time whether JetStream works. A connection to a NATS server does not show it: the
// server may have no JetStream, the node no permission for it, or the cluster no majority.
//
//     idle ──ready──▶ due ──asked──▶ waiting ──answer, or none in time──▶ due, after a while

struct JetStreamCheck {
    /// Nanoseconds between two questions, between them while JetStream does not work, and for an answer.
    private static let interval = 5 * TopicFeed.second
    private static let retry = TopicFeed.second
    private static let time = 2 * TopicFeed.second
    /// Consecutive failures from which on JetStream counts as unreachable: a single answer may be lost.
    private static let mostFailures = 2

    private(set) var number: UInt64 = 0
    /// When to ask, or to stop waiting.
    private(set) var dueAt: UInt64 = .max
    private var sentAt: UInt64?
    private var failures = 0
    /// When the first of these failures was asked for.
    private var failingSince: UInt64 = 0
    /// What the server said about a question that it did not pass on.
    var objection: String?

    mutating func begin(now: UInt64) {
        self = JetStreamCheck(number: number, dueAt: now)
    }

    mutating func stop() { self = JetStreamCheck(number: number, dueAt: .max) }

    private init(number: UInt64, dueAt: UInt64) { (self.number, self.dueAt) = (number, dueAt) }

    init() {}

    /// Whether a question has no answer in time.
    func isOverdue(now: UInt64) -> Bool { sentAt != nil && dueAt <= now }

    /// Whether to ask now.
    func isDue(now: UInt64) -> Bool { sentAt == nil && dueAt <= now }

    mutating func asked(now: UInt64) {
        number += 1
        sentAt = now
        dueAt = now + JetStreamCheck.time
    }

    mutating func succeeded(now: UInt64) {
        sentAt = nil
        failures = 0
        objection = nil
        dueAt = now + JetStreamCheck.interval
    }

    /// Returns since when JetStream is unreachable; nil if that is not certain yet.
    mutating func failed(now: UInt64) -> UInt64? {
        if failures == 0 { failingSince = sentAt ?? now }
        failures += 1
        sentAt = nil
        dueAt = now + JetStreamCheck.retry
        return failures >= JetStreamCheck.mostFailures ? failingSince : nil
    }
}
