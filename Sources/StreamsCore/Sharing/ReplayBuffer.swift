// ReplayBuffer: the values between a stream and one subscriber. What becomes of each is decided by Replay's
// subscription, as for a subscriber of the broker; here are the values themselves.
//
//     arrives ─┬─ it was asked for, and nothing waits ─→ passes ─────────────────────┐
//              └─ else: overflow policy ─→ waiting ─→ asked for by now ─→ ready ─────┴─→ the subscriber, then the end
//
// `waiting` is bounded by the capacity, `ready` by what was asked for.

import Replay

/// Calls come one at a time. What is lost is handed out, for the caller to release where it holds no lock.
struct ReplayBuffer<Value> {
    private var cursor: Replay.Subscription
    private var waiting = Queue<Value>()
    private var ready = Queue<Value>()
    /// Asked for, beyond what the cursor can count.
    private var further = Subscribers.Demand.none
    /// Values below are known to the cursor.
    private var told: SequenceNumber
    /// Values that passed since; it is told of them together.
    private var passed = 0
    /// So many more pass without a look at anything.
    private var passing = 0
    private var hasEnded = false

    /// - Parameters:
    ///   - window: the values that it begins with.
    ///   - next: the number of the first that arrives.
    ///   - capacity: how many values may wait, one at least.
    init(window: Queue<Value>, next: SequenceNumber, capacity: Int, policy: Overflow) {
        // Those it begins with are numbered as the latest; which of them they are is of no consequence.
        let range = SequenceRange(lower: next.advanced(by: -window.count), upper: next)
        cursor = Replay.Subscription(
            start: .all, window: range, buffer: capacity, overflow: policy, credit: Credit(mode: .outstanding))
        waiting = window
        told = next
        // `latest` begins with the last one only.
        while waiting.count > cursor.waiting { _ = waiting.popFirst() }
    }

    /// A value arrives.
    /// - Returns: whether it is for the subscriber now.
    @inline(__always)
    mutating func arrive(_ value: Value, lost: inout [Value]) -> Bool {
        guard passing > 0 else { return settle(value, &lost) }
        passing -= 1
        passed += 1
        return true
    }

    private mutating func settle(_ value: Value, _ lost: inout [Value]) -> Bool {
        tell()
        if further > .none { grant() }
        told = told.advanced(by: 1)
        cursor.appended(upTo: told)
        if waiting.isEmpty, !cursor.deliverable.isEmpty {
            cursor.handOver(1)
            letPass()
            return true
        }
        cursor.settle()
        let isTaken = cursor.newestWaiting == told.advanced(by: -1)
        let surplus = waiting.count + (isTaken ? 1 : 0) - cursor.waiting
        cursor.closeGaps()
        for _ in 0..<max(surplus, 0) {
            let isOldest = cursor.overflow == .dropOldest || cursor.overflow == .latest
            if let gone = isOldest ? waiting.popFirst() : waiting.popLast() { lost.append(gone) }
        }
        if isTaken { waiting.append(value) }
        return false
    }

    /// What was to pass cannot be delivered just now: it is ready.
    mutating func keep(_ value: Value) { ready.append(value) }

    /// The subscriber asked for more: what waits is ready, as far as that goes.
    mutating func request(_ demand: Subscribers.Demand) {
        tell()
        further += demand
        grant()
    }

    /// The stream ended. The first end counts.
    mutating func end() {
        tell()
        hasEnded = true
        passing = 0
        cursor.topicEnded(.completed, at: told)
    }

    /// Has the cursor know what passed.
    private mutating func tell() {
        guard passed > 0 else { return }
        told = told.advanced(by: passed)
        cursor.appended(upTo: told)
        cursor.handOver(passed)
        passed = 0
    }

    /// Turns demand into credit, and credit into values that are ready.
    private mutating func grant() {
        if let figure = further.max {
            // One more, and it would be no limit to the cursor.
            let room = Int(Credit.unbounded) - 1 - Int(clamping: cursor.credit.outstanding)
            let count = cursor.credit.isUnbounded ? 0 : min(figure, room)
            if count > 0 { _ = cursor.request(UInt32(count)) }
            further = cursor.credit.isUnbounded ? .none : further - count
        } else {
            _ = cursor.request(Credit.unbounded)
            further = .none
        }
        while !cursor.deliverable.isEmpty {
            let count = cursor.deliverable.count
            for _ in 0..<count { if let value = waiting.popFirst() { ready.append(value) } }
            cursor.handOver(count)
        }
        letPass()
    }

    private mutating func letPass() {
        passing = waiting.isEmpty && !hasEnded && cursor.end == nil ? cursor.credit.available : 0
    }

    // Out

    var hasReady: Bool { !ready.isEmpty }
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
    mutating func horizon() -> SequenceNumber? {
        tell()
        return cursor.horizon
    }
}
