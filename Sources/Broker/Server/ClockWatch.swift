// ClockWatch: whether somebody set the machine's clock, or the machine slept, while the broker ran: retention by age,
// tokens and certificates go by that clock.

import Core

struct ClockWatch {
    /// Nanoseconds between two looks.
    static let interval: UInt64 = 1_000_000_000
    /// By so many nanoseconds a clock jumps. What keeps it right moves it in far smaller steps.
    static let least: Int64 = 1_000_000_000

    private var due: UInt64
    private var last: Instant

    init(_ now: Instant) {
        due = now.monotonic + ClockWatch.interval
        last = now
    }

    /// Nanoseconds until `look` is to be called.
    func timeout(now: UInt64) -> UInt64 { due > now ? due - now : 0 }

    /// By how many nanoseconds the clock has jumped since the last look; nil if it has not, or it is not time.
    mutating func look(_ now: Instant) -> Int64? {
        guard due <= now.monotonic else { return nil }
        due = now.monotonic + ClockWatch.interval
        let passed = Int64(clamping: now.monotonic - last.monotonic)
        let jump = now.wall.subtractingReportingOverflow(last.wall).partialValue &- passed
        last = now
        return jump.magnitude >= ClockWatch.least.magnitude ? jump : nil
    }
}
