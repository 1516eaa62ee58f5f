// Allowance: how much credit one side has given the other, and how much of it is left.

import Bytes

/// Messages that may still be sent on a stream. Credit adds up and saturates at 2³¹−1, which means unbounded.
struct Allowance {
    private(set) var left: UInt64

    private static let unbounded = UInt64(CreditWindow.unbounded)

    init(_ n: UInt32) { left = UInt64(n) }

    var isEmpty: Bool { left == 0 }
    /// At most 2³¹−1, which means unbounded.
    var shown: UInt32 { UInt32(left) }

    mutating func add(_ n: UInt64) {
        left = min(left.addingClamped(n), Self.unbounded)
    }

    /// Takes one message's credit. Returns false if there is none.
    mutating func take() -> Bool {
        if left == 0 { return false }
        if left != Self.unbounded { left -= 1 }
        return true
    }

    mutating func removeAll() { left = 0 }
}
