// Backoff: how long to wait before the next attempt to connect.

/// Exponential, with jitter: the n-th wait is drawn from the upper half of `first · 2ⁿ`, but never above `longest`.
public struct Backoff: Sendable {
    private let first: UInt64
    private let longest: UInt64
    private let attempts: Int?
    /// Attempts that have failed since the last success.
    public private(set) var failures = 0

    /// - Parameters:
    ///   - first: nanoseconds of the longest first wait, at least a millisecond.
    ///   - longest: nanoseconds that no wait is longer than.
    ///   - attempts: that may fail in a row; nil is any number.
    public init(first: UInt64, longest: UInt64, attempts: Int? = nil) {
        self.first = max(first, 1_000_000)
        self.longest = max(longest, self.first)
        self.attempts = attempts
    }

    /// The connection was there: begin anew.
    public mutating func reset() { failures = 0 }

    /// The connection was lost, or an attempt failed.
    /// - Returns: nanoseconds to wait; nil when there are no attempts left.
    public mutating func next(using random: inout some RandomNumberGenerator) -> UInt64? {
        if let attempts, failures >= attempts { return nil }
        // Beyond 63 doublings there is nothing that `longest` would not have cut.
        let (doubled, isOver) = first.multipliedReportingOverflow(by: 1 << UInt64(min(failures, 62)))
        let ceiling = isOver ? longest : min(doubled, longest)
        failures += 1
        // Any of 0 to half the ceiling, by the upper word of the product, which needs no second number.
        let half = ceiling - ceiling / 2
        return ceiling / 2 + random.next().multipliedFullWidth(by: half &+ 1).high
    }
}
