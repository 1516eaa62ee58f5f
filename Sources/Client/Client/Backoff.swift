// Backoff: how long to wait before the next attempt to connect.

/// Exponential backoff with jitter: the n-th wait is drawn from the upper half of `first · 2ⁿ`, capped at `longest`.
public struct Backoff: Sendable {
    private let first: UInt64
    private let longest: UInt64
    private let attempts: Int?
    /// Attempts that have failed since the last success.
    public private(set) var failures = 0

    /// - Parameters:
    ///   - first: the longest first wait in nanoseconds, at least a millisecond.
    ///   - longest: the longest wait in nanoseconds.
    ///   - attempts: the number of consecutive failures allowed; nil is unlimited.
    public init(first: UInt64, longest: UInt64, attempts: Int? = nil) {
        self.first = max(first, 1_000_000)
        self.longest = max(longest, self.first)
        self.attempts = attempts
    }

    /// Starts over, after a connection was established.
    public mutating func reset() { failures = 0 }

    /// Counts a failure: the connection was lost, or an attempt failed.
    /// - Returns: the nanoseconds to wait; nil if no attempts are left.
    public mutating func next(using random: inout some RandomNumberGenerator) -> UInt64? {
        if let attempts, failures >= attempts { return nil }
        // More doublings would be capped by `longest` anyway.
        let (doubled, isOver) = first.multipliedReportingOverflow(by: 1 << UInt64(min(failures, 62)))
        let ceiling = isOver ? longest : min(doubled, longest)
        failures += 1
        // Draw from 0 to half the ceiling, using the upper word of the product, which needs no second random number.
        let half = ceiling - ceiling / 2
        return ceiling / 2 + random.next().multipliedFullWidth(by: half &+ 1).high
    }
}
