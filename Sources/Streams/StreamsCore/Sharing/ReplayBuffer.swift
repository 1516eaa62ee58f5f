// ReplayBuffer: the values between a stream and one subscriber. What becomes of each is decided by Replay's
// subscription, as for a subscriber of the broker; here are the values themselves.
//
//     arrives ─┬─ it was asked for, and nothing waits ─→ passes ─────────────────────┐
//              └─ else: overflow policy ─→ waiting ─→ asked for by now ─→ ready ─────┴─→ the subscriber, then the end
//
// `waiting` is bounded by the capacity, `ready` by what was asked for.

import ForebayWire
import Replay

/// How many values go straight to the subscriber. Apart from the buffer as it does not depend on what they are: values
/// that are passed on at once need nothing else.
struct ReplayLane {
    /// So many more pass without a look at anything.
    fileprivate var passing = 0
    /// Values that passed and that the cursor does not know of; it is told of them together.
    fileprivate var passed = 0
    /// Credit that the cursor does not know of either.
    fileprivate var granted = 0
    /// The credit that the cursor knew of before all that.
    fileprivate var known = 0
    /// Nothing waits, so that demand is of consequence only to what arrives.
    fileprivate var isClear = false

    /// The subscriber asked for more.
    /// - Returns: whether that is all there is to it; else the buffer is to `request` it.
    @inline(__always) mutating func grant(_ demand: Subscribers.Demand) -> Bool {
        guard isClear else { return false }
        if known == .max { return true }
        // The cursor takes a larger sum for no limit.
        guard let count = demand.max, count < 1 << 29, granted < 1 << 29, known < 1 << 29 else { return false }
        passing += count
        granted += count
        return true
    }

    /// A value arrives.
    /// - Returns: whether it is for the subscriber now; else the buffer is to `settle` what becomes of it.
    @inline(__always) mutating func pass() -> Bool {
        guard passing > 0 else { return false }
        passing -= 1
        passed += 1
        return true
    }
}

/// Calls come one at a time, each with the same lane. What is lost is handed out, for the caller to release where it
/// holds no lock.
struct ReplayBuffer<Value>: ~Copyable {
    private var cursor: Replay.Subscription
    private var credit = Credit(mode: .outstanding)
    private var waiting = Queue<Value>()
    private var ready = Queue<Value>()
    /// Asked for, beyond what the cursor can count.
    private var further = Subscribers.Demand.none
    /// Values below are known to the cursor.
    private var told: SequenceNumber
    private var hasEnded = false
    /// A value arrived that was not taken.
    private var wasRefused = false

    /// - Parameters:
    ///   - window: the values that it begins with.
    ///   - next: the number of the first that arrives.
    ///   - capacity: how many values may wait, one at least.
    init(window: Queue<Value>, next: SequenceNumber, capacity: Int, policy: Overflow) {
        // Those it begins with are numbered as the latest; which of them they are is of no consequence.
        let range = SequenceRange(lower: next.advanced(by: -window.count), upper: next)
        cursor = Replay.Subscription(
            start: .all, window: range, buffer: capacity, overflow: policy)
        waiting = window
        told = next
        // `latest` begins with the last one only.
        while waiting.count > cursor.waiting { _ = waiting.popFirst() }
    }

    /// A value arrives that does not pass by its lane.
    /// - Returns: whether it is for the subscriber now.
    mutating func settle(_ value: Value, _ lane: inout ReplayLane, lost: inout Queue<Value>) -> Bool {
        tell(&lane)
        if further > .none { grant(&lane) }
        told = told.advanced(by: 1)
        cursor.appended(upTo: told)
        if waiting.isEmpty, handOver(most: 1) > 0 {
            letPass(&lane)
            return true
        }
        lane.isClear = false
        cursor.settle()
        let isTaken = cursor.newestWaiting == told.advanced(by: -1)
        let surplus = waiting.count + (isTaken ? 1 : 0) - cursor.waiting
        cursor.closeGaps()
        for _ in 0..<max(surplus, 0) {
            let isOldest = cursor.overflow == .dropOldest || cursor.overflow == .latest
            if let gone = isOldest ? waiting.popFirst() : waiting.popLast() { lost.append(gone) }
        }
        if isTaken { waiting.append(value) } else { wasRefused = true }
        return false
    }

    /// What was to pass cannot be delivered just now: it is ready.
    mutating func keep(_ value: Value) { ready.append(value) }

    /// The subscriber asked for more: what waits is ready, as far as that goes.
    mutating func request(_ demand: Subscribers.Demand, _ lane: inout ReplayLane) {
        tell(&lane)
        further += demand
        grant(&lane)
    }

    /// The stream ended. The first end counts.
    mutating func end(_ lane: inout ReplayLane) {
        tell(&lane)
        hasEnded = true
        lane.passing = 0
        lane.isClear = false
        cursor.topicEnded(.completed, at: told)
    }

    /// Has the cursor know what passed.
    private mutating func tell(_ lane: inout ReplayLane) {
        if lane.granted > 0 { _ = credit.add(UInt32(lane.granted)) }
        lane.granted = 0
        lane.known = lane.passing
        guard lane.passed > 0 else { return }
        told = told.advanced(by: lane.passed)
        cursor.appended(upTo: told)
        let count = handOver(most: lane.passed)
        assert(count == lane.passed, "values passed that were not asked for")
        lane.passed = 0
    }

    /// Turns demand into credit, and credit into values that are ready.
    private mutating func grant(_ lane: inout ReplayLane) {
        if let figure = further.max {
            // One more, and it would be no limit to the cursor.
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

    /// Has the cursor hand over what it may, at most so many. Returns how many.
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

    // Out

    var hasReady: Bool { !ready.isEmpty }
    /// Under `fail`: there was no room, and nothing more is taken.
    var hasOverflowed: Bool { cursor.overflow == .fail && wasRefused }
    /// All was taken, and the end is due.
    var isEndDue: Bool { ready.isEmpty && cursor.end != nil }
    mutating func popReady() -> Value? { ready.popFirst() }

    /// All that is ready.
    mutating func takeReady() -> Queue<Value> {
        var taken = Queue<Value>()
        swap(&taken, &ready)
        return taken
    }

    /// All there is, when nothing is wanted any more.
    mutating func takeAll() -> [Queue<Value>] {
        defer {
            waiting = Queue()
            ready = Queue()
        }
        return [waiting, ready]
    }

    /// The end, if it is due; once.
    mutating func takeEnd() -> End? { ready.isEmpty ? cursor.takeEnd() : nil }

    /// Under `block`: values below may be sent without more waiting than there is room for.
    mutating func horizon(_ lane: inout ReplayLane) -> SequenceNumber? {
        tell(&lane)
        return cursor.horizon
    }
}
