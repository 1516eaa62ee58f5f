// Pacer: when the next message is due, so that no more than a rate go out.

/// A steady schedule. Who falls behind (for want of credit, or of input) catches up by a tenth of a second at most.
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

    /// When the next message may go, in nanoseconds.
    var next: UInt64 { UInt64(due.rounded(.up)) }

    func isDue(_ now: UInt64) -> Bool { Double(now) >= due }

    mutating func sent(now: UInt64) {
        due = max(due, Double(now) - max(Self.catchUp, interval)) + interval
    }
}
