// Replayer: one stream in, its last values retained, any number of subscribers, each with a buffer of its own. The
// in-process counterpart of a topic; `shareReplay` and `BufferSubject` are made of it.
//
// A value goes to every branch's buffer under the lock, so that all see the same order. Where it is for the subscriber
// at once and nobody else is at work there, the thread that brought it is from then on, and delivers it with no lock
// held. When it is through with all of them it looks, under the lock again, what has become ready meanwhile: two turns
// of the lock for a value, however many subscribers there are.

import Replay

final class Replayer<Output, Failure: Error>: @unchecked Sendable {
    typealias Branch = ReplayBranch<Output, Failure>

    let shared = ReplayLock()
    private let capacity: Int
    private let overflow: Publishers.ReplayOverflow<Failure>
    private let blocks: Bool

    // Under the lock
    private(set) var completion: Subscribers.Completion<Failure>?
    private var retained = Queue<Output>()
    private var next = SequenceNumber.first
    private var branches: [Branch] = []
    private var upstream: (any Subscription)?
    /// Values below were asked for upstream.
    private var asked = SequenceNumber.first

    /// - Parameter capacity: values retained for those that come later, and values that may wait for each subscriber,
    ///   which is one at least.
    init(capacity: Int, overflow: Publishers.ReplayOverflow<Failure>) {
        precondition(capacity >= 0, "A capacity cannot be negative.")
        self.capacity = capacity
        self.overflow = overflow
        if case .block = overflow { blocks = true } else { blocks = false }
    }

    deinit { upstream?.cancel() }

    // In

    func append(_ value: Output) {
        shared.lock.lock()
        guard completion == nil else { return shared.lock.unlock() }
        next = next.advanced(by: 1)
        var lost: [Output] = []
        retain(value, &lost)
        let mine = offer(value, &lost)
        shared.lock.unlock()
        // Here, and not before: it may be the last to hold them, and their `deinit` may come back.
        lost.removeAll()
        for branch in mine { branch.pass(value) }
        release(mine)
    }

    /// What those that come later are replayed follows the policy as well. Under `latest` it is one value.
    private func retain(_ value: Output, _ lost: inout [Output]) {
        let most: Int
        if case .latest = overflow { most = Swift.min(1, capacity) } else { most = capacity }
        if retained.count >= most {
            let gone: Output?
            switch overflow {
            case .dropNewest: return
            case .replaceNewest: gone = retained.popLast()
            case .dropOldest, .latest, .customError, .block: gone = retained.popFirst()
            }
            if let gone { lost.append(gone) }
        }
        if most > 0 { retained.append(value) }
    }

    /// - Returns: the branches that it is for now, where this thread is at work from now on.
    private func offer(_ value: Output, _ lost: inout [Output]) -> [Branch] {
        var some: [Branch]?
        for (index, branch) in branches.enumerated() {
            let passes = branch.buffer.arrive(value, lost: &lost)
            if passes, !branch.isAtWork {
                branch.isAtWork = true
                some?.append(branch)
            } else {
                if passes { branch.buffer.keep(value) }
                if some == nil { some = Array(branches[..<index]) }
            }
        }
        return some ?? branches
    }

    func finish(_ completion: Subscribers.Completion<Failure>) {
        shared.lock.lock()
        guard self.completion == nil else { return shared.lock.unlock() }
        self.completion = completion
        let ended = upstream.take()
        var mine: [Branch] = []
        for branch in branches {
            branch.buffer.end()
            guard !branch.isAtWork, branch.buffer.isEndDue else { continue }
            branch.isAtWork = true
            mine.append(branch)
        }
        shared.lock.unlock()
        _ = ended
        release(mine)
    }

    // Delivery

    /// This thread is done with branches where it was at work; it goes on where there is more to be delivered.
    func release(_ branches: [Branch]) {
        var mine = branches
        while !mine.isEmpty {
            var busy: [Branch] = []
            var over: [Branch] = []
            shared.lock.lock()
            for branch in mine {
                if branch.returned > .none {
                    if !branch.isOver { branch.buffer.request(branch.returned) }
                    branch.returned = .none
                }
                if branch.isOver {
                    over.append(branch)
                } else if branch.buffer.hasReady {
                    branch.batch = branch.buffer.takeReady()
                    busy.append(branch)
                } else if let end = branch.buffer.takeEnd() {
                    branch.due = end
                    branch.over.store(true, ordering: .relaxed)
                    forget(branch)
                    busy.append(branch)
                } else {
                    branch.isAtWork = false
                }
            }
            shared.lock.unlock()
            for branch in over { branch.clear() }
            for branch in busy { branch.deliver() }
            mine = busy
        }
        if blocks { pull() }
    }

    /// A branch is over. The lock is held, and the caller holds the branch.
    func forget(_ branch: Branch) {
        if let index = branches.firstIndex(where: { $0 === branch }) { branches.remove(at: index) }
    }

    // Upstream

    /// - Returns: false if there is one already, or the stream has ended.
    func connect(_ subscription: any Subscription) -> Bool {
        let isFirst = shared.lock.with {
            guard upstream == nil, completion == nil else { return false }
            upstream = subscription
            return true
        }
        guard isFirst else { return false }
        if blocks { pull() } else { subscription.request(.unlimited) }
        return true
    }

    /// Under `block`, asks upstream for as much as the slowest subscriber has room for now.
    func pull() {
        guard blocks else { return }
        shared.lock.lock()
        let horizon = branches.compactMap { $0.buffer.horizon() }.min() ?? next
        let more = horizon - asked
        guard more > 0, let upstream else { return shared.lock.unlock() }
        asked = horizon
        shared.lock.unlock()
        upstream.request(.max(more))
    }

    // Subscribers

    /// - Parameter owner: lives as long as the subscription.
    func attach<S: Subscriber>(_ subscriber: S, owner: AnyObject) where S.Input == Output, S.Failure == Failure {
        shared.lock.lock()
        var buffer = ReplayBuffer(window: retained, next: next, capacity: capacity, policy: overflow.policy)
        if completion != nil { buffer.end() }
        let branch = ReplaySubscription(subscriber, of: self, owner: owner, buffer: buffer, overflow: overflow)
        if completion == nil { branches.append(branch) }
        shared.lock.unlock()
        branch.begin()
        pull()
    }
}
