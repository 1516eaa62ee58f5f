// FailureTally: failures that anybody may cause as often as he likes, told once a second at most.

import Core

/// One kind of failure. Belongs to one thread.
struct FailureTally {
    private static let interval: UInt64 = 1_000_000_000
    private let level: LogRecord.Level
    private let message: String
    private var untold = 0
    private var cause = ""
    private var lastTold: UInt64?

    init(_ level: LogRecord.Level, _ message: String) {
        self.level = level
        self.message = message
    }

    /// When the next line is due.
    var deadline: UInt64? { untold == 0 ? nil : (lastTold ?? 0) + FailureTally.interval }

    /// Of several between two lines the last one's cause is told.
    mutating func count(_ cause: String) {
        untold += 1
        self.cause = cause
    }

    mutating func tell(now: UInt64, log: Log) {
        guard untold > 0, lastTold.map({ now - $0 >= FailureTally.interval }) ?? true else { return }
        log.write(level, message, [("attempts", String(untold)), ("cause", cause)])
        untold = 0
        lastTold = now
    }
}
