// Credit: what a subscriber has asked for and not yet received. Adds up, saturates, and becomes unbounded for good at
// one of two moments (`Mode`). Delivering anything costs credit; the end of a topic does not (see `Subscription`).

/// A subscriber's outstanding demand, in messages.
public struct Credit: Sendable {
    /// When demand becomes unbounded.
    public enum Mode: Sendable {
        /// When a single request is `unbounded`, or the credit not yet spent reaches it.
        case outstanding
        /// When all that was ever requested adds up to `unbounded`: for clients that stop asking there because they
        /// take it for "no limit" (rsocket-java).
        case cumulative
    }

    /// The n that means "no limit": 2³¹−1, the largest REQUEST_N.
    public static let unbounded: UInt32 = 0x7FFF_FFFF

    /// All that was ever requested, in messages; saturates. A request of "no limit" counts with its figure.
    public private(set) var requested: UInt64 = 0
    @usableFromInline var unspent: UInt32 = 0
    /// When demand becomes unbounded.
    public let mode: Mode
    /// No figure limits the subscriber any more, nor ever will again.
    public private(set) var isUnbounded = false

    public init(mode: Mode) {
        self.mode = mode
    }

    /// What may still be delivered; stays at 2³¹−1 when unbounded.
    public var outstanding: UInt64 { UInt64(unspent) }

    /// How many messages may be delivered now; `Int.max` when unbounded.
    @inlinable
    public var available: Int { isUnbounded ? .max : Int(unspent) }

    /// The subscriber asks for `n` more messages.
    /// - Returns: false if `n` is 0, which is an error of the subscriber's (INVALID on its stream); nothing changes.
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

    /// `n` messages were delivered; n is at most `available`. Changes nothing once demand is unbounded.
    public mutating func spend(_ n: Int) {
        precondition(n >= 0 && n <= available, "more was delivered than the subscriber asked for")
        if !isUnbounded { unspent -= UInt32(n) }
    }
}
