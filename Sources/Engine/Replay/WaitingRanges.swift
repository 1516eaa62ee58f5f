// WaitingRanges: the messages that wait for one subscriber, as ranges of the topic's log, and their limit. Nothing is
// stored per message. The first range is part of the structure itself. Only `drop-newest` and `replace-newest` ever
// need more ranges, which are kept in a ring that is allocated once, when the second range is needed.

/// The waiting messages, lowest first, in at most `Subscription.maxRanges` ranges that neither touch nor overlap.
@usableFromInline
struct WaitingRanges: ~Copyable, Sendable {
    /// The first range; empty only if nothing waits.
    @usableFromInline private(set) var first: SequenceRange
    /// How many messages wait, in all ranges.
    @usableFromInline private(set) var count: UInt64
    /// How many messages may wait. For a new subscription that is `buffer` plus what it joined with, until at most
    /// `buffer` wait.
    private(set) var limit: UInt64
    @usableFromInline let buffer: UInt32

    private var ringStart: UInt8 = 0
    private var ringCount: UInt8 = 0
    private(set) var ring: [SequenceRange] = []

    init(_ range: SequenceRange, buffer: UInt32) {
        first = range
        count = range.length
        self.buffer = buffer
        let (sum, overflow) = count.addingReportingOverflow(UInt64(buffer))
        limit = overflow ? .max : sum
        relax()
    }

    @inlinable @inline(__always)
    var isEmpty: Bool { count == 0 }

    /// All ranges, lowest first.
    var all: [SequenceRange] { isEmpty ? [] : [first] + (0..<Int(ringCount)).map { ring[slot($0)] } }

    /// The number of ranges.
    var ranges: Int { isEmpty ? 0 : 1 + Int(ringCount) }

    /// The range that contains the newest message; empty if nothing waits.
    private(set) var last: SequenceRange {
        get { ringCount == 0 ? first : ring[slot(Int(ringCount) - 1)] }
        set {
            if ringCount == 0 { first = newValue } else { ring[slot(Int(ringCount) - 1)] = newValue }
        }
    }

    /// How many more messages may wait.
    var room: UInt64 { limit > count ? limit - count : 0 }

    /// Whether messages that begin at `sequence` can be added without exceeding the number of ranges.
    func canAppend(at sequence: SequenceNumber) -> Bool {
        ranges < Subscription.maxRanges || last.upper == sequence
    }

    /// Adds messages above all that wait. The caller must check `canAppend` and the limit.
    mutating func append(_ range: SequenceRange) {
        guard !range.isEmpty else { return }
        if isEmpty {
            first = range
        } else if last.upper == range.lower {
            last.upper = range.upper
        } else {
            precondition(ranges < Subscription.maxRanges)
            if ring.isEmpty {
                ring = Array(repeating: first, count: Subscription.maxRanges - 1)
            }
            ringCount += 1
            last = range
        }
        count += range.length
    }

    /// Removes the first `n` messages of the first range, which must have at least `n`.
    mutating func removeFirst(_ n: UInt64) {
        precondition(n <= first.length)
        first.lower = first.lower.adding(n)
        count -= n
        if first.isEmpty && ringCount > 0 {
            first = ring[Int(ringStart)]
            ringStart = UInt8(slot(1))
            ringCount -= 1
        }
        relax()
    }

    /// Removes the messages before `head`, and returns how many there were.
    mutating func remove(before head: SequenceNumber) -> UInt64 {
        let before = count
        while !isEmpty && first.lower < head {
            removeFirst(min(first.length, head.distance(from: first.lower)))
        }
        return before - count
    }

    /// Removes the newest message.
    mutating func removeLast() {
        precondition(!isEmpty)
        if last.length == 1 && ringCount > 0 {
            ringCount -= 1
        } else {
            last.upper = last.upper.advanced(by: -1)
        }
        count -= 1
        relax()
    }

    /// Replaces the whole last range with `range`.
    mutating func replaceLast(with range: SequenceRange) {
        count -= last.length
        last = range
        count += range.length
        relax()
    }

    mutating func removeAll() {
        first.lower = last.upper
        first.upper = first.lower
        count = 0
        ringCount = 0
        relax()
    }

    /// Moves all waiting messages into one range that ends at `upper`.
    mutating func closeGaps(below upper: SequenceNumber) {
        first = SequenceRange(lower: upper.advanced(by: -Int(clamping: count)), upper: upper)
        ringCount = 0
    }

    /// Whether the limit would become `buffer` if only `count` messages waited.
    func relaxes(at count: UInt64) -> Bool { count <= UInt64(buffer) && limit > UInt64(buffer) }

    private mutating func relax() {
        if relaxes(at: count) { limit = UInt64(buffer) }
    }

    private func slot(_ index: Int) -> Int {
        (Int(ringStart) + index) % (Subscription.maxRanges - 1)
    }
}
