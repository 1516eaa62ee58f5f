// Subscription: one subscriber's cursor into a topic's log: what it still has to receive, what it lost and how it ends.
// It knows only sequence numbers; the messages stay in the log, shared by all subscriptions. The subscriber's demand is
// a separate account, `Credit`: the driver, which has both, hands over no more than the account allows.
//
// For every batch that a topic appends, the driver does the following with each subscription:
//
//     appended(upTo:)                      the messages are pending
//     deliverable / handOver, repeatedly   as far as credit and the connection's output allow
//     applyPolicy()                        what is still pending waits, and the overflow policy applies
//
// The driver repeats `deliverable`/`handOver` whenever credit or output space becomes available. The result is the same
// as for handling each message separately, in order. The life cycle:
//
//     open ──── topicEnded ───────────────────┐
//       ├────── applyPolicy, evict: overflow ─┼─→ ending ── all it accepted is delivered or lost; takeEnd ──→ over
//       └────── fail(_:) ─────────────────────┘
//
// Every operation is O(1), or O(ranges) for `evict`, however many messages it concerns.

import ForebayWire

/// One subscriber's cursor into a topic. It takes 144 bytes. No peer can violate its preconditions, which only require
/// that no more is handed over than is `deliverable`.
public struct Subscription: ~Copyable, Sendable {
    /// The maximum number of separate ranges of waiting messages (`drop-newest`, `replace-newest`).
    public static let maxRanges = 64

    @usableFromInline
    enum State: Sendable {
        case open
        /// Messages from `stop` on are not accepted. The end is due once all messages before it are delivered or lost.
        case ending(End, stop: SequenceNumber)
        case over
    }

    @usableFromInline var state = State.open
    @usableFromInline var waitingRanges: WaitingRanges
    /// Messages before this sequence are delivered, waiting or lost; those from here on are pending.
    @usableFromInline var handled: SequenceNumber
    /// The topic's end as known to the subscription.
    @usableFromInline var arrived: SequenceNumber
    /// The message after the last one delivered, or the first one that the subscription should receive.
    private var expected: SequenceNumber

    /// The topic's end when the subscription began: messages from here on arrived afterwards.
    public let joined: SequenceNumber
    /// With `Start.from`: how many messages from there on were no longer retained.
    public let missedAtStart: UInt64
    /// Messages delivered so far.
    public private(set) var delivered: UInt64 = 0
    /// Messages lost so far to the overflow policy, eviction or `fail(_:)`; excludes `missedAtStart` and what arrived
    /// after a subscription with the policy `fail` had overflowed.
    public private(set) var dropped: UInt64 = 0
    /// Messages lost, including `missedAtStart`, that no delivered message has reported: those after the last one
    /// delivered, once nothing waits. The terminal event reports them.
    public private(set) var droppedSinceDelivery: UInt64
    /// What happens to a message that can neither be handed over nor wait.
    public let overflow: Overflow
    /// Whether the subscription could not begin at the requested position, which is no longer, or not yet, available.
    public let gapAtStart: Bool

    /// - Parameters:
    ///   - start: where to begin.
    ///   - window: the retained messages; its upper end is the sequence of the next message.
    ///   - buffer: how many messages may wait, 1 to 2³¹−1; values outside are clamped.
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
            // No message has the number 0: it means the first one.
            missed = begin.distance(from: max(sequence, .first))
            gap = missed > 0
        }
        var joinedWith = SequenceRange(lower: begin, upper: next)
        if overflow == .latest && joinedWith.length > 1 {
            joinedWith.lower = next.advanced(by: -1)
            // A subscription from a given message reports what it skips; a replay just begins later.
            if case .from = start {
                skipped = joinedWith.lower.distance(from: begin)
            } else {
                begin = joinedWith.lower
            }
        }

        let bounded = overflow == .latest ? 1 : min(max(buffer, 1), Int(Int32.max))
        waitingRanges = WaitingRanges(joinedWith, buffer: UInt32(bounded))
        handled = next
        arrived = next
        expected = begin
        joined = next
        missedAtStart = missed
        gapAtStart = gap
        dropped = skipped
        droppedSinceDelivery = missed + skipped
        self.overflow = overflow
    }

    // State

    /// How many messages wait, excluding pending ones.
    @inlinable @inline(__always)
    public var waiting: Int { Int(clamping: waitingRanges.count) }

    /// Whether no messages wait, and none are pending.
    @inlinable @inline(__always)
    public var isUpToDate: Bool { handled == arrived && waitingRanges.isEmpty }

    /// The waiting messages, lowest first, for audits.
    package var waitingMessages: [SequenceRange] { waitingRanges.all }

    /// The topic's end as known to the subscription.
    @inlinable @inline(__always)
    package var knownEnd: SequenceNumber { arrived }

    /// The newest waiting message; nil if there is none.
    public var newestWaiting: SequenceNumber? {
        waitingRanges.isEmpty ? nil : waitingRanges.last.upper.advanced(by: -1)
    }

    /// How many messages may wait at present: the buffer, or more while a new subscription works off the messages it
    /// joined with.
    public var limit: Int { Int(clamping: waitingRanges.limit) }

    /// Whether the terminal event was taken. Nothing changes after that.
    public var isOver: Bool {
        if case .over = state { return true }
        return false
    }

    /// The lowest sequence still needed: the first waiting or pending message, else the topic's end.
    @inlinable @inline(__always)
    public var cursor: SequenceNumber {
        if !waitingRanges.isEmpty { return waitingRanges.first.lower }
        let pending = pending
        return pending.isEmpty ? arrived : pending.lower
    }

    /// Under `block`: publishers may append up to here (exclusive) without more than `buffer` messages waiting that
    /// arrived after the subscription began. Nil for other policies, and once the subscription accepts nothing more.
    @inlinable @inline(__always)
    public var horizon: SequenceNumber? {
        floor?.adding(UInt64(waitingRanges.buffer))
    }

    /// Under `block`: messages from here on must not be evicted. Nil for other policies, and once the subscription
    /// needs none.
    @inlinable @inline(__always)
    public var floor: SequenceNumber? {
        guard overflow == .block else { return nil }
        switch state {
        case .open, .ending(.completed, _), .ending(.topicFailed, _): return max(cursor, joined)
        case .ending(.overflow, _), .over: return nil
        }
    }

    /// The next messages without a gap that may be handed over now: as many waiting ones as `available` allows, and
    /// pending ones if nothing comes before them.
    /// - Parameter available: the available credit, in messages.
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

    /// How many messages were lost just before `next`, the first deliverable one: since the last one delivered, or
    /// since the position where the subscription should have begun.
    public func dropped(before next: SequenceNumber) -> UInt64 { lost(before: next) }

    /// The terminal event that is due now: everything accepted is delivered or lost. This event needs no credit.
    @inlinable @inline(__always)
    public var end: End? {
        guard case .ending(let end, _) = state, waitingRanges.isEmpty, pending.isEmpty else { return nil }
        return end
    }

    // Events

    /// The topic now ends at `end` (exclusive). The messages up to there are pending until `applyPolicy()`.
    public mutating func appended(upTo end: SequenceNumber) {
        arrived = max(arrived, end)
    }

    /// Records that the first `count` messages of `range`, the result of `deliverable`, were handed over to the
    /// connection. The caller charges the credit.
    public mutating func handOver(_ count: Int, of range: SequenceRange) {
        assert(range == deliverable(range.count))
        precondition(count >= 0 && count <= range.count, "only deliverable messages can be taken")
        guard count > 0 else { return }
        let n = UInt64(count)
        droppedSinceDelivery -= lost(before: range.lower)
        expected = range.lower.adding(n)
        remove(n)
        delivered += n
    }

    /// Passes the sequences before `end` that would be handed over next: they have no message. While messages wait in
    /// front of such sequences, these count as waiting, too; and as dropped, if the overflow policy or an eviction
    /// discards them together with those messages.
    /// - Parameter isLost: whether they had messages, which are lost as if they had been evicted. Otherwise they do not
    ///   count as dropped.
    /// - Returns: false if there are none.
    public mutating func skip(to end: SequenceNumber, isLost: Bool) -> Bool {
        let range = deliverable(.max)
        let count = range.prefix(end.distance(from: range.lower)).length
        guard count > 0 else { return false }
        remove(count)
        if isLost { loseUpstream(count) } else { expected = expected.adding(count) }
        return true
    }

    /// Removes the first `count` messages of `deliverable`, which are waiting or pending ones.
    private mutating func remove(_ count: UInt64) {
        let waited = waitingRanges.isEmpty ? 0 : min(count, waitingRanges.first.length)
        if waited > 0 { waitingRanges.removeFirst(waited) }
        handled = handled.adding(count - waited)
    }

    /// Makes pending messages that could not be handed over wait, if the overflow policy permits.
    @inlinable @inline(__always)
    public mutating func applyPolicy() {
        if handled != arrived { applyPolicyToPending() }
    }

    @usableFromInline
    mutating func applyPolicyToPending() {
        let arrivals = pending
        handled = arrived
        guard !arrivals.isEmpty else { return }
        let unplaced = waitingRanges.admit(arrivals, under: overflow)
        guard unplaced > 0 else { return }
        if overflow == .fail {
            overflowed(.buffer)
        } else {
            lose(unplaced)
        }
    }

    /// For clients that identify messages by their order, not by their numbers: renumbers the waiting messages to end
    /// just below the next sequence, without gaps, so that they form one range. Losses are reported before the first of
    /// them. Must be called when nothing is pending.
    public mutating func closeGaps() {
        if overflow.leavesGaps { waitingRanges.closeGaps(below: handled) }
    }

    /// Handles the eviction of the log's messages before `head` for lack of space: waiting or pending ones are lost.
    /// Under `fail` the subscription accepts nothing more and ends once the rest is delivered. That applies even if its
    /// topic ended earlier, because the topic's end would suggest that it has received everything.
    public mutating func evict(before head: SequenceNumber) {
        appended(upTo: head)
        var lost = waitingRanges.remove(before: head)
        let pending = pending
        if !pending.isEmpty && pending.lower < head {
            handled = min(pending.upper, head)
            lost += handled.distance(from: pending.lower)
        }
        guard lost > 0 else { return }
        lose(lost)
        if overflow == .fail { overflowed(.bytes) }
    }

    /// The topic ended at `end` (exclusive). The first end counts, and so does an earlier overflow.
    /// - Parameter lost: how many messages were lost between the last one and the end of the topic.
    public mutating func topicEnded(_ how: TopicEnd, at end: SequenceNumber, lost: UInt64 = 0) {
        appended(upTo: end)
        guard case .open = state else { return }
        if lost > 0 { loseUpstream(lost) }
        guard case .open = state else { return }
        state = .ending(how == .completed ? .completed : .topicFailed, stop: arrived)
    }

    /// Ends the subscription at once: all waiting and pending messages are lost. No effect if an end is already due.
    public mutating func fail(_ cause: OverflowCause) {
        guard !isOver, end == nil else { return }
        lose(waitingRanges.count + pending.length)
        waitingRanges.removeAll()
        handled = arrived
        overflowed(cause)
    }

    /// The terminal event, if it is due. The event is returned once, and the subscription is over from then on.
    public mutating func takeEnd() -> End? {
        guard let due = end else { return nil }
        state = .over
        return due
    }

    // Internal

    /// Arrivals that `applyPolicy()` has not handled yet.
    @inlinable @inline(__always)
    var pending: SequenceRange {
        switch state {
        case .open: SequenceRange(lower: handled, upper: arrived)
        case .ending(_, let stop): SequenceRange(lower: handled, upper: max(handled, min(stop, arrived)))
        case .over: SequenceRange(lower: handled, upper: handled)
        }
    }

    private func lost(before next: SequenceNumber) -> UInt64 {
        next.distance(from: expected) + (delivered == 0 ? missedAtStart : 0)
    }

    private mutating func lose(_ count: UInt64) {
        dropped += count
        droppedSinceDelivery += count
    }

    /// Messages were lost where the topic's log comes from. Under `fail` the subscription ends, as after an eviction.
    private mutating func loseUpstream(_ count: UInt64) {
        lose(count)
        if overflow == .fail { overflowed(.lost) }
    }

    /// Accepts nothing that arrives from now on. The first overflow counts. An overflow replaces a topic's end that has
    /// not been reported yet, because the subscriber has not received everything up to that end.
    private mutating func overflowed(_ cause: OverflowCause) {
        switch state {
        case .open: state = .ending(.overflow(cause), stop: arrived)
        case .ending(.overflow, _), .over: break
        case .ending(_, let stop): state = .ending(.overflow(cause), stop: stop)
        }
    }
}
