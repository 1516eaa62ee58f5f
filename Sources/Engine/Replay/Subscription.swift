// Subscription: one subscriber's cursor into a topic's log – what it is still to receive, what it lost and how it ends.
// It knows sequence numbers only; the messages stay in the log, shared by all subscriptions. What the subscriber has
// asked for is an account of its own, `Credit`: whoever drives both hands over no more than the account allows.
//
// For every batch that a topic takes in, whoever drives it does, for each subscription:
//
//     appended(upTo:)                      the messages are pending
//     deliverable / handOver, repeatedly   as far as credit and the connection's output have room
//     settle()                             what is still pending waits, and the overflow policy has its say
//
// and `deliverable`/`handOver` again whenever credit or room arrives. The outcome is that of doing so for each message
// singly, in order. Its life:
//
//     open ──── topicEnded ──────────────┐
//       ├────── settle, evict: overflow ─┼─→ ending ── all that it took is delivered or lost; takeEnd ──→ over
//       └────── fail(_:) ────────────────┘
//
// Every operation is O(1), or O(ranges) for `evict`, however many messages it concerns.

import ForebayWire

/// One subscriber's cursor into a topic. 144 bytes; what a peer sends can trip none of its preconditions, which only
/// ask that no more is handed over than is `deliverable`.
public struct Subscription: ~Copyable, Sendable {
    /// How many separate ranges of waiting messages are kept (`drop-newest`, `replace-newest`).
    public static let maxRanges = 64

    @usableFromInline
    enum State: Sendable {
        case open
        /// Messages from `stop` on are not taken. The end is due once all below is delivered or lost.
        case ending(End, stop: SequenceNumber)
        case over
    }

    @usableFromInline var state = State.open
    @usableFromInline var waitingRanges: WaitingRanges
    /// Messages below are delivered, waiting or lost; those from here on are pending.
    @usableFromInline var settled: SequenceNumber
    /// Where the topic ends, as far as it was told.
    @usableFromInline var arrived: SequenceNumber
    /// The message after the last one delivered, or the first one it was to see.
    private var expected: SequenceNumber

    /// The topic's end when the subscription began: what comes from here on arrived after it joined.
    public let joined: SequenceNumber
    /// With `Start.from`: how many messages from there on were no longer retained.
    public let missedAtStart: UInt64
    /// Messages delivered so far.
    public private(set) var delivered: UInt64 = 0
    /// Messages lost so far, to the overflow policy, eviction or `fail(_:)`; `missedAtStart` is not among them, nor is
    /// what arrived after a subscription with the policy `fail` had overflowed.
    public private(set) var dropped: UInt64 = 0
    /// Messages lost, `missedAtStart` among them, that no delivered message has told of: those after the last one
    /// delivered, once nothing waits. Told with the terminal event.
    public private(set) var droppedSinceDelivery: UInt64
    /// What happens to a message that can neither be handed over nor wait.
    public let overflow: Overflow
    /// It could not begin where it was to: what was asked for is no longer, or not yet, there.
    public let gapAtStart: Bool

    /// - Parameters:
    ///   - start: where to begin.
    ///   - window: the retained messages; its upper end is the sequence that the next message will get.
    ///   - buffer: how many messages may wait, 1 to 2³¹−1; figures outside are taken for the nearest.
    public init(start: Start, window: SequenceRange, buffer: Int, overflow: Overflow) {
        let oldest = min(window.lower, window.upper)
        let next = window.upper
        var begin = next
        var missed: UInt64 = 0
        var gap = false
        var skipped: UInt64 = 0

        switch start {
        case .next:
            break
        case .all:
            begin = oldest
        case .last(let n):
            begin = n < window.length ? SequenceNumber(next.value - n) : oldest
        case .from(let sequence) where sequence > next:
            gap = true
        case .from(let sequence):
            begin = max(sequence, oldest)
            // No message has the number 0: asking for it is asking for the first.
            missed = begin.distance(from: max(sequence, .first))
            gap = missed > 0
        }
        var joinedWith = SequenceRange(lower: begin, upper: next)
        if overflow == .latest && joinedWith.length > 1 {
            joinedWith.lower = next.advanced(by: -1)
            // Who names a message to begin at is told of those that it does not get; a replay just begins later.
            if case .from = start {
                skipped = joinedWith.lower.distance(from: begin)
            } else {
                begin = joinedWith.lower
            }
        }

        let bounded = overflow == .latest ? 1 : min(max(buffer, 1), Int(Int32.max))
        waitingRanges = WaitingRanges(joinedWith, buffer: UInt32(bounded))
        settled = next
        arrived = next
        expected = begin
        joined = next
        missedAtStart = missed
        gapAtStart = gap
        dropped = skipped
        droppedSinceDelivery = missed + skipped
        self.overflow = overflow
    }

    // What there is to see

    /// How many messages wait; those of a batch that is not settled are not among them.
    @inlinable @inline(__always)
    public var waiting: Int { Int(clamping: waitingRanges.count) }

    /// What waits, lowest first; for whoever audits a subscription.
    package var waitingMessages: [SequenceRange] { waitingRanges.all }

    /// Up to where it was told that the topic goes.
    @inlinable @inline(__always)
    package var told: SequenceNumber { arrived }

    /// The newest message that waits; nil if none does.
    public var newestWaiting: SequenceNumber? {
        waitingRanges.isEmpty ? nil : waitingRanges.last.upper.advanced(by: -1)
    }

    /// How many may wait at present: the buffer, or more for a joiner that still works off what it joined with.
    public var limit: Int { Int(clamping: waitingRanges.limit) }

    /// The terminal event was taken; nothing changes any more.
    public var isOver: Bool {
        if case .over = state { return true }
        return false
    }

    /// The lowest sequence that is still needed: the first message that waits or is pending, else the topic's end.
    @inlinable @inline(__always)
    public var cursor: SequenceNumber {
        if !waitingRanges.isEmpty { return waitingRanges.first.lower }
        let pending = pending
        return pending.isEmpty ? arrived : pending.lower
    }

    /// Under `block`: publishers may append up to here (exclusive) without more than `buffer` messages waiting that
    /// arrived after it joined. Nil for other policies, and once it takes nothing more.
    @inlinable @inline(__always)
    public var horizon: SequenceNumber? {
        floor?.adding(UInt64(waitingRanges.buffer))
    }

    /// Under `block`: messages from here on must not be evicted. Nil for other policies, and once it needs none.
    @inlinable @inline(__always)
    public var floor: SequenceNumber? {
        guard overflow == .block else { return nil }
        switch state {
        case .open, .ending(.completed, _), .ending(.topicFailed, _): return max(cursor, joined)
        case .ending(.overflow, _), .over: return nil
        }
    }

    /// The next messages without a gap between them that may be handed over now: as many as `available` allows of what
    /// waits, and of what is pending if nothing else comes before it.
    /// - Parameter available: what the credit is good for, in messages.
    @inlinable @inline(__always)
    public func deliverable(_ available: Int) -> SequenceRange {
        var range = pending
        if !waitingRanges.isEmpty {
            let first = waitingRanges.first
            let goesOn = first.upper == range.lower && !range.isEmpty
            range = SequenceRange(lower: first.lower, upper: goesOn ? range.upper : first.upper)
        }
        return range.prefix(UInt64(available))
    }

    /// How many messages were lost just before `next`, the first that is deliverable: since the last one delivered, or
    /// since where the subscription was to begin.
    public func dropped(before next: SequenceNumber) -> UInt64 { lost(before: next) }

    /// The terminal event that is due now: all that was taken is delivered or lost. It needs no credit.
    @inlinable @inline(__always)
    public var end: End? {
        guard case .ending(let end, _) = state, waitingRanges.isEmpty, pending.isEmpty else { return nil }
        return end
    }

    // What happens

    /// The topic now ends at `end` (exclusive). The messages up to there are pending until `settle()`.
    public mutating func appended(upTo end: SequenceNumber) {
        arrived = max(arrived, end)
    }

    /// The first `count` messages of `range`, which is what was `deliverable`, were handed over to the connection. The
    /// account is the caller's to charge.
    public mutating func handOver(_ count: Int, of range: SequenceRange) {
        assert(range == deliverable(range.count))
        precondition(count >= 0 && count <= range.count, "only what is deliverable can be handed over")
        guard count > 0 else { return }
        let n = UInt64(count)
        let waited = waitingRanges.isEmpty ? 0 : min(n, waitingRanges.first.length)
        droppedSinceDelivery -= lost(before: range.lower)
        expected = range.lower.adding(n)
        if waited > 0 { waitingRanges.removeFirst(waited) }
        settled = settled.adding(n - waited)
        delivered += n
    }

    /// What is pending could not be handed over: it waits now, as far as the overflow policy lets it.
    @inlinable @inline(__always)
    public mutating func settle() {
        if settled != arrived { settlePending() }
    }

    @usableFromInline
    mutating func settlePending() {
        let arrivals = pending
        settled = arrived
        guard !arrivals.isEmpty else { return }
        let unplaced = waitingRanges.admit(arrivals, under: overflow)
        guard unplaced > 0 else { return }
        if overflow == .fail {
            overflowed(.buffer)
        } else {
            lose(unplaced)
        }
    }

    /// For whoever tells messages apart by their order and not by their numbers: those that wait get the numbers just
    /// below the next one, without gaps, so that they make up one range. What was lost is told before the first of
    /// them. To be called when nothing is pending.
    public mutating func closeGaps() {
        if overflow.leavesGaps { waitingRanges.closeGaps(below: settled) }
    }

    /// The log lost its messages before `head` for want of bytes: those that waited or were pending are lost. Under
    /// `fail` the subscription takes nothing more, and ends once the rest is delivered – even if its topic ended before
    /// that, as it would otherwise be told that it has received everything.
    public mutating func evict(before head: SequenceNumber) {
        appended(upTo: head)
        var lost = waitingRanges.remove(before: head)
        let pending = pending
        if !pending.isEmpty && pending.lower < head {
            settled = min(pending.upper, head)
            lost += settled.distance(from: pending.lower)
        }
        guard lost > 0 else { return }
        lose(lost)
        if overflow == .fail { overflowed(.bytes) }
    }

    /// The topic ended at `end` (exclusive). The first end counts, and so does an overflow before it.
    public mutating func topicEnded(_ how: TopicEnd, at end: SequenceNumber) {
        appended(upTo: end)
        guard case .open = state else { return }
        state = .ending(how == .completed ? .completed : .topicFailed, stop: arrived)
    }

    /// Ends the subscription at once: all that waits or is pending is lost. Without effect if an end is already due.
    public mutating func fail(_ cause: OverflowCause) {
        guard !isOver, end == nil else { return }
        lose(waitingRanges.count + pending.length)
        waitingRanges.removeAll()
        settled = arrived
        overflowed(cause)
    }

    /// The terminal event, if it is due: it is returned once, and the subscription is over.
    public mutating func takeEnd() -> End? {
        guard let due = end else { return nil }
        state = .over
        return due
    }

    // Within

    /// Arrivals that `settle()` has not yet seen to.
    @inlinable @inline(__always)
    var pending: SequenceRange {
        switch state {
        case .open: SequenceRange(lower: settled, upper: arrived)
        case .ending(_, let stop): SequenceRange(lower: settled, upper: max(settled, min(stop, arrived)))
        case .over: SequenceRange(lower: settled, upper: settled)
        }
    }

    private func lost(before next: SequenceNumber) -> UInt64 {
        next.distance(from: expected) + (delivered == 0 ? missedAtStart : 0)
    }

    private mutating func lose(_ count: UInt64) {
        dropped += count
        droppedSinceDelivery += count
    }

    /// Nothing that arrives from now on is taken. The first overflow counts; it outdoes a topic's end that is still to
    /// be told, since what the subscriber received is not all that led up to that end.
    private mutating func overflowed(_ cause: OverflowCause) {
        switch state {
        case .open: state = .ending(.overflow(cause), stop: arrived)
        case .ending(.overflow, _), .over: break
        case .ending(_, let stop): state = .ending(.overflow(cause), stop: stop)
        }
    }
}
