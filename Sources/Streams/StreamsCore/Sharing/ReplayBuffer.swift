// ReplayBuffer: the values between a stream and one subscriber. The subscription in Replay decides what happens to each
// value, as for a subscriber of the broker; the values themselves are here.
//
//     arrives ─┬─ requested, and nothing waits ─→ passes ───────────────────────────┐
//              └─ else: overflow policy ─→ waiting ─→ requested by now ─→ ready ────┴─→ the subscriber, then the end
//
// `waiting` is bounded by the capacity, `ready` by the demand.

import ForebayWire
import Replay

/// The number of values that may go straight to the subscriber. It is separate from the buffer because it does not
/// depend on the type of the values: values that are passed on immediately need nothing else.
struct ReplayLane {
    /// The number of further values that may pass without any other check.
    fileprivate var passing = 0
    /// Values that have passed but are not accounted for by the cursor yet. These values are reported to it together.
    fileprivate var passed = 0
    /// Credit that the cursor does not account for yet.
    fileprivate var granted = 0
    /// The credit that the cursor knew at the last report.
    fileprivate var known = 0
    /// Whether nothing waits, so that demand concerns only values still to arrive.
    fileprivate var isClear = false

    /// Grants what the subscriber has requested.
    /// - Returns: false if the buffer must handle the request with `request`.
    @inline(__always) mutating func grant(_ demand: Subscribers.Demand) -> Bool {
        guard isClear else { return false }
        if known == .max { return true }
        // A larger sum would be unbounded credit.
        guard let count = demand.max, count < 1 << 29, granted < 1 << 29, known < 1 << 29 else { return false }
        passing += count
        granted += count
        return true
    }

    /// Lets a value that has arrived pass, if possible.
    /// - Returns: true if the caller must deliver it now. If false, the buffer must handle the value with `resolve`.
    @inline(__always) mutating func pass() -> Bool {
        guard passing > 0 else { return false }
        passing -= 1
        passed += 1
        return true
    }
}

/// Calls come one at a time, each with the same lane. Lost values are returned, so that the caller can release them
/// without a lock.
struct ReplayBuffer<Value>: ~Copyable {
    private var cursor: Replay.Subscription
    private var credit = Credit(mode: .outstanding)
    private var waiting = Queue<Value>()
    private var ready = Queue<Value>()
    /// Demand beyond what the credit can count.
    private var further = Subscribers.Demand.none
    /// The cursor accounts for all values below this number.
    private var reported: SequenceNumber
    private var hasEnded = false
    /// Whether a value was refused.
    private var wasRefused = false

    /// - Parameters:
    ///   - window: the values that the buffer starts with.
    ///   - next: the number of the first value to arrive.
    ///   - capacity: how many values may wait, at least one.
    init(window: Queue<Value>, next: SequenceNumber, capacity: Int, policy: Overflow) {
        // The initial values are numbered as if they were the latest; their real numbers do not matter.
        let range = SequenceRange(lower: next.advanced(by: -window.count), upper: next)
        cursor = Replay.Subscription(
            start: .all, window: range, buffer: capacity, overflow: policy)
        waiting = window
        reported = next
        // `latest` starts with only the last one.
        while waiting.count > cursor.waiting { _ = waiting.popFirst() }
    }

    /// Handles a value that the lane did not let pass.
    /// - Returns: true if the caller must deliver it now.
    mutating func resolve(_ value: Value, _ lane: inout ReplayLane, lost: inout Queue<Value>) -> Bool {
        notify(&lane)
        if further > .none { grant(&lane) }
        reported = reported.advanced(by: 1)
        cursor.appended(upTo: reported)
        if waiting.isEmpty, handOver(most: 1) > 0 {
            letPass(&lane)
            return true
        }
        lane.isClear = false
        cursor.applyPolicy()
        let isTaken = cursor.newestWaiting == reported.advanced(by: -1)
        let surplus = waiting.count + (isTaken ? 1 : 0) - cursor.waiting
        cursor.closeGaps()
        for _ in 0..<max(surplus, 0) {
            let isOldest = cursor.overflow == .dropOldest || cursor.overflow == .latest
            if let gone = isOldest ? waiting.popFirst() : waiting.popLast() { lost.append(gone) }
        }
        if isTaken { waiting.append(value) } else { wasRefused = true }
        return false
    }

    /// Keeps a value that passed but cannot be delivered just now: it is ready.
    mutating func keep(_ value: Value) { ready.append(value) }

    /// Makes as many waiting values ready as the subscriber has requested.
    mutating func request(_ demand: Subscribers.Demand, _ lane: inout ReplayLane) {
        notify(&lane)
        further += demand
        grant(&lane)
    }

    /// Ends the stream. Only the first end counts.
    mutating func end(_ lane: inout ReplayLane) {
        notify(&lane)
        hasEnded = true
        lane.passing = 0
        lane.isClear = false
        cursor.topicEnded(.completed, at: reported)
    }

    /// Reports to the cursor what has passed.
    private mutating func notify(_ lane: inout ReplayLane) {
        if lane.granted > 0 { _ = credit.add(UInt32(lane.granted)) }
        lane.granted = 0
        lane.known = lane.passing
        guard lane.passed > 0 else { return }
        reported = reported.advanced(by: lane.passed)
        cursor.appended(upTo: reported)
        let count = handOver(most: lane.passed)
        assert(count == lane.passed, "Values were delivered that were not requested.")
        lane.passed = 0
    }

    /// Turns demand into credit, and credit into ready values.
    private mutating func grant(_ lane: inout ReplayLane) {
        if let figure = further.max {
            // One unit more would make the credit unbounded.
            let room = Int(Credit.unbounded) - 1 - Int(clamping: credit.outstanding)
            let count = credit.isUnbounded ? 0 : min(figure, room)
            if count > 0 { _ = credit.add(UInt32(count)) }
            further = credit.isUnbounded ? .none : further - count
        } else {
            _ = credit.add(Credit.unbounded)
            further = .none
        }
        while true {
            let count = handOver(most: .max)
            if count == 0 { break }
            for _ in 0..<count { if let value = waiting.popFirst() { ready.append(value) } }
        }
        letPass(&lane)
    }

    /// Hands over at most `most` values, as the credit allows. Returns their number.
    private mutating func handOver(most: Int) -> Int {
        let range = cursor.deliverable(credit.available)
        let count = min(range.count, most)
        if count > 0 {
            cursor.handOver(count, of: range)
            credit.spend(count)
        }
        return count
    }

    private mutating func letPass(_ lane: inout ReplayLane) {
        lane.isClear = waiting.isEmpty && !hasEnded && cursor.end == nil
        lane.passing = lane.isClear ? credit.available : 0
        lane.known = credit.isUnbounded ? .max : lane.passing
    }

    // Output

    var hasReady: Bool { !ready.isEmpty }
    /// Under `fail`: whether a value was refused. No further values are then accepted.
    var hasOverflowed: Bool { cursor.overflow == .fail && wasRefused }
    /// Whether all values were taken and the completion is due.
    var isEndDue: Bool { ready.isEmpty && cursor.end != nil }
    mutating func popReady() -> Value? { ready.popFirst() }

    /// Removes all ready values.
    mutating func takeReady() -> Queue<Value> {
        var taken = Queue<Value>()
        swap(&taken, &ready)
        return taken
    }

    /// Removes all values, after the subscription has ended.
    mutating func takeAll() -> [Queue<Value>] {
        defer {
            waiting = Queue()
            ready = Queue()
        }
        return [waiting, ready]
    }

    /// Returns the completion once, if it is due.
    mutating func takeEnd() -> End? { ready.isEmpty ? cursor.takeEnd() : nil }

    /// Under `block`: values below this number can be sent without exceeding the buffer.
    mutating func horizon(_ lane: inout ReplayLane) -> SequenceNumber? {
        notify(&lane)
        return cursor.horizon
    }
}
