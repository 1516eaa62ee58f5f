// Refill: how much credit a subscriber asks for, and when it asks again.
//
// A subscriber that asks for N at a time asks again when half of it is used, so that the broker need not wait for the
// question while the other half is on its way. What counts as used is decided by the caller: not what arrived, but what
// was dealt with.

/// The demand of one subscriber: batches of a fixed size, asked once or again and again, within a limit in all.
public struct Refill: Equatable, Sendable {
    /// The largest n of a REQUEST_N; as credit it stands for "unbounded".
    public static let unbounded: UInt32 = 0x7fff_ffff

    private let batch: UInt32
    private let once: Bool
    /// What may still be asked for; nil is no limit.
    private var allowance: UInt64?
    private var used: UInt64 = 0

    /// - Parameters:
    ///   - batch: messages asked for at a time, 1 to 2³¹−1; nil asks for everything at once.
    ///   - once: ask a single time.
    ///   - limit: messages wanted in all, at least 1; no more than that is ever asked for.
    public init(batch: UInt32?, once: Bool = false, limit: UInt64? = nil) {
        precondition(batch.map { (1...Self.unbounded).contains($0) } ?? true && limit != 0)
        self.batch = batch ?? Self.unbounded
        // Unbounded demand is asked for once by its nature.
        self.once = once || self.batch == Self.unbounded && (limit.map { $0 <= UInt64(Self.unbounded) } ?? true)
        allowance = limit
    }

    /// The n to begin with.
    public mutating func first() -> UInt32 { take(UInt64(batch)) }

    /// `count` messages were dealt with; returns the n to ask for now, 0 for none.
    public mutating func use(_ count: UInt64) -> UInt32 {
        if once { return 0 }
        used += count
        guard used >= (UInt64(batch) + 1) / 2 else { return 0 }
        let n = take(min(used, UInt64(Self.unbounded)))
        used = 0
        return n
    }

    /// All that will ever be asked for has been.
    public var isSpent: Bool { once || allowance == 0 }

    private mutating func take(_ wanted: UInt64) -> UInt32 {
        guard let left = allowance else { return UInt32(wanted) }
        let n = min(wanted, left)
        allowance = left - n
        return UInt32(n)
    }
}
