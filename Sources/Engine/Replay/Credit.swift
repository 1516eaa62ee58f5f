// Credit: what a subscriber has requested and not yet received. It accumulates, saturates, and becomes permanently
// unbounded under one of two conditions (`Mode`). Delivering a message costs credit; the end of a topic does not (see
// `Subscription`).

/// A subscriber's outstanding demand, in messages.
public struct Credit: Sendable {
    /// When demand becomes unbounded.
    public enum Mode: Sendable {
        /// When a single request is `unbounded`, or the unspent credit reaches it.
        case outstanding
        /// When the total ever requested reaches `unbounded`: for clients that stop requesting at that point because
        /// they consider it "no limit" (rsocket-java).
        case cumulative
    }

    /// The n that means "no limit": 2³¹−1, the largest REQUEST_N.
    public static let unbounded: UInt32 = 0x7FFF_FFFF

    /// The total ever requested, in messages; saturates. A request for "no limit" counts as 2³¹−1.
    public private(set) var requested: UInt64 = 0
    @usableFromInline var unspent: UInt32 = 0
    /// When demand becomes unbounded.
    public let mode: Mode
    /// Whether demand is permanently unbounded.
    public private(set) var isUnbounded = false

    public init(mode: Mode) {
        self.mode = mode
    }

    /// What may still be delivered; remains 2³¹−1 when unbounded.
    public var outstanding: UInt64 { UInt64(unspent) }

    /// How many messages may be delivered now; `Int.max` when unbounded.
    @inlinable
    public var available: Int { isUnbounded ? .max : Int(unspent) }

    /// Adds the `n` messages that the subscriber requests.
    /// - Returns: false if `n` is 0, which is the subscriber's error (INVALID on its stream) and changes nothing.
    public mutating func add(_ n: UInt32) -> Bool {
        guard n > 0 else { return false }
        let (sum, overflow) = requested.addingReportingOverflow(UInt64(n))
        requested = overflow ? .max : sum
        guard !isUnbounded else { return true }
        let total = UInt64(unspent) + UInt64(n)
        let reached = mode == .cumulative ? requested : total
        if reached >= UInt64(Self.unbounded) {
            isUnbounded = true
            unspent = Self.unbounded
        } else {
            unspent = UInt32(total)
        }
        return true
    }

    /// Spends credit for `n` delivered messages, at most `available`. Changes nothing if demand is unbounded.
    public mutating func spend(_ n: Int) {
        precondition(n >= 0 && n <= available, "more was delivered than the subscriber requested")
        if !isUnbounded { unspent -= UInt32(n) }
    }
}
