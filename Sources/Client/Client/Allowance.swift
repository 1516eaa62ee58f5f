// Allowance: how much one side has allowed the other, and how much of it is left.

import Bytes

/// Messages that may still be sent on a stream. Allowances add up and latch at 2³¹−1, which stands for unbounded.
struct Allowance {
    private(set) var left: UInt64

    private static let unbounded = UInt64(Refill.unbounded)

    init(_ n: UInt32) { left = UInt64(n) }

    var isEmpty: Bool { left == 0 }
    /// At most 2³¹−1, which is unbounded.
    var shown: UInt32 { UInt32(left) }

    mutating func add(_ n: UInt64) {
        left = min(left.addingClamped(n), Self.unbounded)
    }

    /// Takes one; false when there is none.
    mutating func take() -> Bool {
        if left == 0 { return false }
        if left != Self.unbounded { left -= 1 }
        return true
    }

    mutating func removeAll() { left = 0 }
}
