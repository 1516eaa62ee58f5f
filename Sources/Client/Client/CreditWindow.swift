// CreditWindow: how much credit a subscriber requests, and when it requests more.
//
// A subscriber that requests N at a time requests more when half of its credit is used, so that the broker need not
// wait for the request while it sends the other half. The caller decides what counts as used: handled messages, not
// received ones.

/// The demand of one subscriber: batches of a fixed size, requested once or repeatedly, up to a total limit.
public struct CreditWindow: Equatable, Sendable {
    /// The largest n of a REQUEST_N; as credit it means "unbounded".
    public static let unbounded: UInt32 = 0x7fff_ffff

    private let batch: UInt32
    private let once: Bool
    /// How much may still be requested; nil is unlimited.
    private var allowance: UInt64?
    private var used: UInt64 = 0

    /// - Parameters:
    ///   - batch: messages requested at a time, 1 to 2³¹−1; nil requests everything at once.
    ///   - once: request a single time.
    ///   - limit: messages wanted in total, at least 1; no more than that is ever requested.
    public init(batch: UInt32?, once: Bool = false, limit: UInt64? = nil) {
        precondition(batch.map { (1...Self.unbounded).contains($0) } ?? true && limit != 0)
        self.batch = batch ?? Self.unbounded
        // Unbounded demand is requested only once anyway.
        self.once = once || self.batch == Self.unbounded && (limit.map { $0 <= UInt64(Self.unbounded) } ?? true)
        allowance = limit
    }

    /// The initial n.
    public mutating func first() -> UInt32 { take(UInt64(batch)) }

    /// Counts `count` handled messages. Returns the n to request now, 0 for none.
    public mutating func use(_ count: UInt64) -> UInt32 {
        if once { return 0 }
        used += count
        guard used >= (UInt64(batch) + 1) / 2 else { return 0 }
        let n = take(min(used, UInt64(Self.unbounded)))
        used = 0
        return n
    }

    /// Whether nothing more will ever be requested.
    public var isSpent: Bool { once || allowance == 0 }

    private mutating func take(_ wanted: UInt64) -> UInt32 {
        guard let left = allowance else { return UInt32(wanted) }
        let n = min(wanted, left)
        allowance = left - n
        return UInt32(n)
    }
}
