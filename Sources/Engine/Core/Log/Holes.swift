// Holes: the ranges of a log's sequences that have no message. Only a topic whose messages come from elsewhere has any:
// what is no message for subscribers there takes a sequence, too, and messages may be lost there.

import Replay

/// Consecutive sequences without a message.
struct Hole: Sendable, Equatable {
    var range: SequenceRange
    /// Whether they had messages, which are lost. If not, subscribers miss nothing.
    var isLost: Bool
}

/// The holes of a log, lowest first. Adjacent ones of the same kind are one.
struct Holes: Sendable, Equatable {
    /// Holes that a topic keeps: its owner evicts the messages before the oldest of more. Adjacent holes without a
    /// message between them, of which none can be evicted, become one beyond this number: all of it is then lost.
    static let most = 1024

    private(set) var all: [Hole] = []

    var isEmpty: Bool { all.isEmpty }
    /// The sequence after the last hole; 0 if there is none.
    var end: SequenceNumber { all.last?.range.upper ?? SequenceNumber(0) }

    /// Adds a hole above all others.
    mutating func append(_ hole: Hole) {
        assert(all.last.map { $0.range.upper <= hole.range.lower } ?? true)
        guard !hole.range.isEmpty else { return }
        guard let last = all.last, last.range.upper == hole.range.lower,
            last.isLost == hole.isLost || all.count >= Holes.most
        else { return all.append(hole) }
        all[all.count - 1].range.upper = hole.range.upper
        all[all.count - 1].isLost = last.isLost || hole.isLost
    }

    /// Removes the holes before `sequence`. One that reaches beyond it stays.
    mutating func evict(before sequence: SequenceNumber) {
        let kept = firstIndex(endingAfter: sequence)
        if kept > 0 { all.removeFirst(kept) }
    }

    /// The hole that contains `sequence`; nil if none does.
    func hole(at sequence: SequenceNumber) -> Hole? {
        next(from: sequence).flatMap { $0.range.lower <= sequence ? $0 : nil }
    }

    /// The first hole that ends after `sequence`; nil if there is none.
    func next(from sequence: SequenceNumber) -> Hole? {
        let index = firstIndex(endingAfter: sequence)
        return index < all.count ? all[index] : nil
    }

    /// The holes with sequences in `range`, which may also have others.
    func within(_ range: SequenceRange) -> [Hole] {
        let first = firstIndex(endingAfter: range.lower)
        return Array(all[first...].prefix { $0.range.lower < range.upper })
    }

    /// How many sequences of `range` have no message.
    func count(in range: SequenceRange) -> Int {
        within(range).reduce(0) {
            let lower = Swift.max($1.range.lower, range.lower)
            return $0 + SequenceRange(lower: lower, upper: Swift.min($1.range.upper, range.upper)).count
        }
    }

    private func firstIndex(endingAfter sequence: SequenceNumber) -> Int {
        var low = 0
        var high = all.count
        while low < high {
            let middle = (low + high) / 2
            if all[middle].range.upper <= sequence { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension Log {
    /// The sequence of the message that is appended next.
    var next: SequenceNumber { Swift.max(end, holes.end) }

    /// How many lost messages follow the last message.
    var lostAtEnd: Int {
        holes.within(SequenceRange(lower: end, upper: next)).reduce(0) { $0 + ($1.isLost ? $1.range.count : 0) }
    }

    /// The first sequence from which on there are at most `Holes.most` holes.
    var firstWithinHoles: SequenceNumber {
        let beyond = holes.all.count - Holes.most
        return beyond > 0 ? Swift.min(holes.all[beyond - 1].range.upper, end) : head
    }

    /// Where a subscription begins, and the messages that are available to it, so that sequences without a message do
    /// not count: the last n are messages, and a position in a hole is the one after it. If the hole is lost, the
    /// subscription misses the sequences from that position on.
    /// - Parameter window: the retained messages.
    func placed(_ start: Start, in window: SequenceRange) -> (Start, SequenceRange) {
        var window = window
        switch start {
        case .next: return (start, window)
        case .all:
            window.lower = afterHoles(in: window)
            return (start, window)
        case .last(let count):
            window.lower = afterHoles(in: window)
            let first = first(ofLast: count, in: window)
            return (.last(UInt64(window.upper - first)), window)
        case .from(var first):
            var position = Swift.max(first, window.lower)
            while position < window.upper, let hole = holes.hole(at: position) {
                if !hole.isLost, position == first { first = hole.range.upper }
                position = hole.range.upper
                if hole.isLost { window.lower = position }
            }
            return (.from(first), window)
        }
    }

    /// The first message of a window that may begin with holes; its end if there is none.
    private func afterHoles(in window: SequenceRange) -> SequenceNumber {
        var sequence = window.lower
        while sequence < window.upper, let hole = holes.hole(at: sequence) { sequence = hole.range.upper }
        return Swift.min(sequence, window.upper)
    }

    private func first(ofLast count: UInt64, in window: SequenceRange) -> SequenceNumber {
        var first = window.upper
        var left = Int(clamping: count)
        for hole in holes.within(window).reversed() {
            let messages = first - hole.range.upper
            guard left > messages else { break }
            left -= messages
            first = hole.range.lower
        }
        return Swift.max(first.advanced(by: -left), window.lower)
    }
}
