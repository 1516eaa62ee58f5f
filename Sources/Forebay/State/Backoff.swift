// Backoff: how long to wait before the next attempt to connect.

/// Exponential, with jitter: the n-th wait is drawn from the upper half of `first · 2ⁿ`, but never above `longest`.
struct Backoff {
    private let policy: ReconnectPolicy
    /// Attempts that have failed since the last success.
    private(set) var failures = 0

    init(_ policy: ReconnectPolicy) { self.policy = policy }

    /// The connection was there: begin anew.
    mutating func reset() { failures = 0 }

    /// The connection was lost, or an attempt failed.
    /// - Returns: nanoseconds to wait; nil when there are no attempts left.
    mutating func next(using random: inout some RandomNumberGenerator) -> UInt64? {
        if let attempts = policy.attempts, failures >= attempts { return nil }
        let first = max(policy.first.nanoseconds, 1_000_000)
        let longest = max(policy.longest.nanoseconds, first)
        // Beyond 63 doublings there is nothing that `longest` would not have cut.
        let (doubled, isOver) = first.multipliedReportingOverflow(by: 1 << UInt64(min(failures, 62)))
        let ceiling = isOver ? longest : min(doubled, longest)
        failures += 1
        // Any of 0 to half the ceiling, by the upper word of the product, which needs no second number.
        let half = ceiling - ceiling / 2
        return ceiling / 2 + random.next().multipliedFullWidth(by: half &+ 1).high
    }
}

extension Duration {
    /// Clamped to what 64 bits hold; a negative one is none.
    var nanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (whole, isOver) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        return isOver ? .max : whole.addingReportingOverflow(UInt64(attoseconds) / 1_000_000_000).partialValue
    }
}
