// Pacer: when the next message is due under a rate limit.

/// A steady schedule. A publisher that falls behind (for lack of credit or input) catches up by at most a tenth of a
/// second.
struct Pacer {
    private let interval: Double
    private var due: Double
    private static let catchUp = 1e8

    /// - Parameters:
    ///   - rate: messages a second, above 0.
    ///   - now: nanoseconds.
    init(rate: Double, now: UInt64) {
        interval = 1e9 / rate
        due = Double(now)
    }

    /// When the next message may be sent, in nanoseconds.
    var next: UInt64 { UInt64(due.rounded(.up)) }

    func isDue(_ now: UInt64) -> Bool { Double(now) >= due }

    mutating func sent(now: UInt64) {
        due = max(due, Double(now) - max(Self.catchUp, interval)) + interval
    }
}
