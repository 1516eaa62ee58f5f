// ClockWatch: detects jumps of the wall clock, when the clock is set or the machine was suspended. Retention by age,
// tokens and certificates depend on that clock.

import Core

struct ClockWatch {
    /// Nanoseconds between two checks.
    static let interval: UInt64 = 1_000_000_000
    /// Minimum jump in nanoseconds. Clock synchronization adjusts the clock in far smaller steps.
    static let least: Int64 = 1_000_000_000

    private var due: UInt64
    private var last: Instant

    init(_ now: Instant) {
        due = now.monotonic + ClockWatch.interval
        last = now
    }

    /// Nanoseconds until `look` is due.
    func timeout(now: UInt64) -> UInt64 { due > now ? due - now : 0 }

    /// By how many nanoseconds the clock has jumped since the last check; nil if it has not, or no check is due.
    mutating func look(_ now: Instant) -> Int64? {
        guard due <= now.monotonic else { return nil }
        due = now.monotonic + ClockWatch.interval
        let passed = Int64(clamping: now.monotonic - last.monotonic)
        let jump = now.wall.subtractingReportingOverflow(last.wall).partialValue &- passed
        last = now
        return jump.magnitude >= ClockWatch.least.magnitude ? jump : nil
    }
}
