// What several suites share: a seeded generator, and short ways to write sequences.

import ForebayWire

@testable import Replay

/// splitmix64: the same numbers for the same seed, everywhere.
struct Random {
    var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func int(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.count))
    }

    mutating func chance(_ percent: Int) -> Bool { int(1...100) <= percent }

    mutating func pick<T>(_ choices: [T]) -> T { choices[int(0...choices.count - 1)] }
}

func sequence(_ value: UInt64) -> SequenceNumber { SequenceNumber(value) }

func window(_ range: Range<UInt64>) -> SequenceRange {
    SequenceRange(lower: SequenceNumber(range.lowerBound), upper: SequenceNumber(range.upperBound))
}

func credit(_ n: UInt32, _ mode: Credit.Mode = .outstanding) -> Credit {
    var credit = Credit(mode: mode)
    if n > 0 { _ = credit.add(n) }
    return credit
}

/// A cursor with its credit account, as a subscription to one topic is driven. The tests compare both together with
/// their models.
struct Subscription: ~Copyable {
    static let maxRanges = Replay.Subscription.maxRanges

    private(set) var inner: Replay.Subscription
    private(set) var credit: Credit
    /// Sequences without a message, and whether they are lost.
    var holes: [UInt64: Bool] = [:]

    init(start: Start, window: SequenceRange, buffer: Int, overflow: Overflow, credit: Credit) {
        inner = Replay.Subscription(start: start, window: window, buffer: buffer, overflow: overflow)
        self.credit = credit
    }

    var deliverable: SequenceRange {
        let range = inner.deliverable(credit.available)
        guard !holes.isEmpty, !range.isEmpty else { return range }
        let hole = (range.lower.value..<range.upper.value).first { holes[$0] != nil }
        return SequenceRange(lower: range.lower, upper: hole.map(SequenceNumber.init) ?? range.upper)
    }
    /// Passes the holes in front of the next message, each kind at once.
    mutating func passHoles() {
        while let isLost = holes[cursor.value] {
            var end = cursor.value
            while holes[end] == isLost { end += 1 }
            guard inner.skip(to: sequence(end), isLost: isLost) else { return }
        }
    }
    var droppedBeforeNext: UInt64 { deliverable.isEmpty ? 0 : inner.dropped(before: deliverable.lower) }
    mutating func request(_ n: UInt32) -> Bool { inner.isOver ? n > 0 : credit.add(n) }
    mutating func handOver(_ count: Int) {
        inner.handOver(count, of: deliverable)
        credit.spend(count)
    }

    var cursor: SequenceNumber { inner.cursor }
    var joined: SequenceNumber { inner.joined }
    var missedAtStart: UInt64 { inner.missedAtStart }
    var delivered: UInt64 { inner.delivered }
    var dropped: UInt64 { inner.dropped }
    var droppedSinceDelivery: UInt64 { inner.droppedSinceDelivery }
    var overflow: Overflow { inner.overflow }
    var gapAtStart: Bool { inner.gapAtStart }
    var waiting: Int { inner.waiting }
    var waitingMessages: [SequenceRange] { inner.waitingMessages }
    var newestWaiting: SequenceNumber? { inner.newestWaiting }
    var limit: Int { inner.limit }
    var isOver: Bool { inner.isOver }
    var horizon: SequenceNumber? { inner.horizon }
    var floor: SequenceNumber? { inner.floor }
    var end: End? { inner.end }
    mutating func appended(upTo end: SequenceNumber) { inner.appended(upTo: end) }
    mutating func applyPolicy() { inner.applyPolicy() }
    mutating func closeGaps() { inner.closeGaps() }
    mutating func evict(before head: SequenceNumber) { inner.evict(before: head) }
    mutating func topicEnded(_ how: TopicEnd, at end: SequenceNumber) { inner.topicEnded(how, at: end) }
    mutating func fail(_ cause: OverflowCause) { inner.fail(cause) }
    mutating func takeEnd() -> End? { inner.takeEnd() }

    /// The sequence numbers of the waiting messages.
    var waitingSequences: [UInt64] { waitingMessages.flatMap { $0.lower.value..<$0.upper.value } }

    /// Delivers what credit and `room` allow, and returns it.
    mutating func flush(room: inout Int) -> [Delivery] {
        var deliveries: [Delivery] = []
        while room > 0 {
            let range = deliverable
            let count = min(range.count, room)
            if count == 0 { break }
            let before = droppedBeforeNext
            handOver(count)
            passHoles()
            for n in 0..<count {
                deliveries.append(Delivery(sequence: range.lower.value + UInt64(n), droppedBefore: n == 0 ? before : 0))
            }
            room -= count
        }
        return deliveries
    }
}
