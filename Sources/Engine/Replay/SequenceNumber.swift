// SequenceNumber: sequence numbers and ranges of them: absolute positions in one topic, distinct from counts, indices
// and credits. All arithmetic saturates, because clients also send sequence numbers (`from=18446744073709551615`).

/// The position of a message in its topic. Topics number their messages from 1 (`first`).
@frozen
public struct SequenceNumber: Comparable, Hashable, Sendable, CustomStringConvertible {
    public var value: UInt64

    /// The sequence number of a topic's first message.
    public static let first = SequenceNumber(1)

    @inlinable
    public init(_ value: UInt64) {
        self.value = value
    }

    @inlinable public var description: String { "\(value)" }

    /// `count` messages further, or back if negative; stays within 0 and `UInt64.max`.
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

    /// How many messages `a` is after `b`; negative if `a` comes first. Stays within the bounds of `Int`.
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

/// The messages from `lower` up to, but not including, `upper`. Empty if `upper` is not above `lower`.
@frozen
public struct SequenceRange: Hashable, Sendable, CustomStringConvertible {
    public var lower: SequenceNumber
    public var upper: SequenceNumber

    @inlinable
    public init(lower: SequenceNumber, upper: SequenceNumber) {
        self.lower = lower
        self.upper = upper
    }

    /// The number of messages in the range, at most `Int.max`.
    @inlinable public var count: Int { isEmpty ? 0 : upper - lower }

    @inlinable public var isEmpty: Bool { upper <= lower }

    @inlinable public var description: String { "\(lower)..<\(upper)" }

    var length: UInt64 { upper.distance(from: lower) }

    /// The first `count` messages of the range, or all of it if there are fewer.
    @inlinable
    func prefix(_ count: UInt64) -> SequenceRange {
        SequenceRange(lower: lower, upper: min(upper, lower.adding(count)))
    }
}
