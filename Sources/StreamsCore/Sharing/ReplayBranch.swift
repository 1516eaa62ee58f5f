// ReplayBranch: one subscriber of a replayer. Which values it gets is decided by Replay's subscription, as for a
// subscriber of the broker; here are the values, and the delivery.
//
//     offered ─┬─ the subscriber has asked for it ─→ ready ──┐
//              └─ it has not ─ overflow policy ─→ waiting ───┴─→ subscriber, then the end
//
// One thread at a time delivers, and holds no lock meanwhile. `waiting` is bounded by the capacity, `ready` by what was
// asked for: it holds more than one value only if several threads send, or if the subscriber itself does.

import Replay

/// A branch as its replayer sees it.
class ReplayBranch<Output, Failure: Error> {
    /// Takes in a value. Called with the replayer's lock held; nothing is delivered.
    func offer(_ value: Output, at sequence: SequenceNumber) { preconditionFailure("a subclass does this") }
    /// Takes in the end, as `offer` does.
    func offer(_ end: Subscribers.Completion<Failure>, at sequence: SequenceNumber) {
        preconditionFailure("a subclass does this")
    }
    /// Delivers what is ready, unless another thread does.
    func deliver() { preconditionFailure("a subclass does this") }
    /// Under `block`: values below may be sent without more waiting than there is room for.
    var horizon: SequenceNumber? { preconditionFailure("a subclass does this") }
}

final class ReplaySubscription<Downstream: Subscriber>: ReplayBranch<Downstream.Input, Downstream.Failure>,
    Subscription, CustomStringConvertible, @unchecked Sendable
{
    typealias Output = Downstream.Input
    typealias Failure = Downstream.Failure

    private let lock = Lock()
    private let replayer: Replayer<Output, Failure>
    private var owner: AnyObject?
    private let overflow: Publishers.ReplayOverflow<Failure>

    // Under the lock
    private var cursor: Replay.Subscription
    private var waiting = Queue<Output>()
    private var ready = Queue<Output>()
    private var topicEnd: Subscribers.Completion<Failure>?
    private var isAtWork = true
    private var isOver = false
    private var downstream: Downstream?

    /// - Parameters:
    ///   - window: the retained values that it begins with, those of `cursor`.
    ///   - end: how the stream has ended already.
    init(
        _ downstream: Downstream, of replayer: Replayer<Output, Failure>, owner: AnyObject,
        cursor: Replay.Subscription, window: some Swift.Sequence<Output>, overflow: Publishers.ReplayOverflow<Failure>,
        end: Subscribers.Completion<Failure>?
    ) {
        self.downstream = downstream
        self.replayer = replayer
        self.owner = owner
        self.cursor = cursor
        self.overflow = overflow
        topicEnd = end
        for value in window { waiting.append(value) }
    }

    /// Hands the subscriber its subscription.
    func begin() {
        downstream?.receive(subscription: self)
        work()
    }

    // From the replayer

    override func offer(_ value: Output, at sequence: SequenceNumber) {
        lock.lock()
        defer { lock.unlock() }
        guard !isOver else { return }
        cursor.appended(upTo: sequence.advanced(by: 1))
        if !cursor.deliverable.isEmpty {
            // What was deliverable before is handed over already: this is the one that arrived.
            cursor.handOver(1)
            ready.append(value)
        } else {
            cursor.settle()
            place(value, at: sequence)
        }
    }

    /// Does with the values that wait what the policy did with their numbers.
    private func place(_ value: Output, at sequence: SequenceNumber) {
        let isTaken = cursor.newestWaiting == sequence
        let surplus = waiting.count + (isTaken ? 1 : 0) - cursor.waiting
        for _ in 0..<max(surplus, 0) {
            switch cursor.overflow {
            case .dropOldest, .latest: _ = waiting.popFirst()
            case .dropNewest, .replaceNewest, .fail, .block: _ = waiting.popLast()
            }
        }
        if isTaken { waiting.append(value) }
    }

    override func offer(_ end: Subscribers.Completion<Failure>, at sequence: SequenceNumber) {
        lock.with {
            guard !isOver, topicEnd == nil else { return }
            topicEnd = end
            if case .finished = end {
                cursor.topicEnded(.completed, at: sequence)
            } else {
                cursor.topicEnded(.failed, at: sequence)
            }
        }
    }

    override var horizon: SequenceNumber? { lock.with { isOver ? nil : cursor.horizon } }

    // From the subscriber

    func request(_ demand: Subscribers.Demand) {
        guard demand > .none else { return }
        lock.with { add(demand) }
        deliver()
        replayer.pull()
    }

    private func add(_ demand: Subscribers.Demand) {
        guard !isOver else { return }
        _ = cursor.request(UInt32(clamping: Swift.min(demand.clamped, Int(Credit.unbounded))))
        while !cursor.deliverable.isEmpty {
            let count = cursor.deliverable.count
            for _ in 0..<count { if let value = waiting.popFirst() { ready.append(value) } }
            cursor.handOver(count)
        }
    }

    func cancel() {
        let held = lock.with {
            isOver = true
            // Who is at work clears up when the subscriber returns.
            return isAtWork ? (nil, nil, []) : clear()
        }
        _ = held
        replayer.remove(self)
    }

    /// Takes out what is held, to be released outside of the lock.
    private func clear() -> (downstream: Downstream?, owner: AnyObject?, values: [Queue<Output>]) {
        defer {
            waiting.removeAll()
            ready.removeAll()
            owner = nil
        }
        return (downstream.take(), owner, [waiting, ready])
    }

    // Delivery

    override func deliver() {
        let isMine = lock.with {
            guard !isAtWork, !isOver, !ready.isEmpty || cursor.end != nil else { return false }
            isAtWork = true
            return true
        }
        if isMine { work() }
    }

    /// Delivers all that is ready, and the end if it is due.
    private func work() {
        var hasMoved = false
        while true {
            lock.lock()
            guard !isOver, let downstream else {
                isAtWork = false
                let held = clear()
                lock.unlock()
                _ = held
                return
            }
            if let value = ready.popFirst() {
                lock.unlock()
                let more = downstream.receive(value)
                if more > .none { lock.with { add(more) } }
                hasMoved = true
                continue
            }
            if let end = cursor.takeEnd() {
                isOver = true
                isAtWork = false
                let completion = completion(of: end)
                let held = clear()
                lock.unlock()
                replayer.remove(self)
                held.downstream?.receive(completion: completion)
                return
            }
            isAtWork = false
            lock.unlock()
            break
        }
        if hasMoved, case .block = overflow { replayer.pull() }
    }

    private func completion(of end: End) -> Subscribers.Completion<Failure> {
        if case .overflow = end, case .customError(let failure) = overflow { return .failure(failure()) }
        return topicEnd ?? .finished
    }

    var description: String { "Replay" }
}
