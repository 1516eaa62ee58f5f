// Sequence numbers and ranges of them: absolute positions in one topic, distinct from counts, indexes and credits.
// All arithmetic saturates, because sequence numbers come from peers as well (`from=18446744073709551615`).

/// The position of a message in its topic. Topics number their messages from 1 (`first`).
@frozen
public struct SequenceNumber: Comparable, Hashable, Sendable, CustomStringConvertible {
    public var value: UInt64

    /// What a topic gives its first message.
    public static let first = SequenceNumber(1)

    @inlinable
    public init(_ value: UInt64) {
        self.value = value
    }

    @inlinable public var description: String { "\(value)" }

    /// `count` messages further on, or further back when negative; stays within 0 and `UInt64.max`.
    @inlinable
    public func advanced(by count: Int) -> SequenceNumber {
        if count >= 0 { return adding(UInt64(count)) }
        let (difference, overflow) = value.subtractingReportingOverflow(UInt64(count.magnitude))
        return SequenceNumber(overflow ? 0 : difference)
    }

    @inlinable
    public static func < (a: SequenceNumber, b: SequenceNumber) -> Bool { a.value < b.value }

    @inlinable
    public static func + (a: SequenceNumber, count: Int) -> SequenceNumber { a.advanced(by: count) }

    /// How many messages `a` lies beyond `b`; negative if it lies before. Stays within the bounds of `Int`.
    @inlinable
    public static func - (a: SequenceNumber, b: SequenceNumber) -> Int {
        if a.value >= b.value { return Int(clamping: a.value - b.value) }
        let back = Int(clamping: b.value - a.value)
        return -back
    }

    @inlinable
    func adding(_ count: UInt64) -> SequenceNumber {
        let (sum, overflow) = value.addingReportingOverflow(count)
        return SequenceNumber(overflow ? .max : sum)
    }

    /// How many messages there are from `earlier` up to this one; 0 if `earlier` is not earlier.
    @inlinable
    func distance(from earlier: SequenceNumber) -> UInt64 {
        value > earlier.value ? value - earlier.value : 0
    }
}

/// The messages from `lower` up to, but not including, `upper`. Empty when `upper` is not above `lower`.
@frozen
public struct SequenceRange: Hashable, Sendable, CustomStringConvertible {
    public var lower: SequenceNumber
    public var upper: SequenceNumber

    @inlinable
    public init(lower: SequenceNumber, upper: SequenceNumber) {
        self.lower = lower
        self.upper = upper
    }

    /// How many messages the range holds, at most `Int.max`.
    @inlinable public var count: Int { isEmpty ? 0 : upper - lower }

    @inlinable public var isEmpty: Bool { upper <= lower }

    @inlinable public var description: String { "\(lower)..<\(upper)" }

    var length: UInt64 { upper.distance(from: lower) }

    /// The first `count` messages of the range, or all of it when it holds no more.
    @inlinable
    func prefix(_ count: UInt64) -> SequenceRange {
        SequenceRange(lower: lower, upper: min(upper, lower.adding(count)))
    }
}
