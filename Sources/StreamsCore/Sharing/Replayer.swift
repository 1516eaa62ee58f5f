// Replayer: one stream in, its last values retained, any number of subscribers, each with a buffer of its own. The
// in-process counterpart of a topic; `shareReplay` and `BufferSubject` are made of it.
//
// A value is offered to every branch under the lock, so that all see the same order; it is delivered afterwards, by
// whichever thread finds a branch idle.

import Replay

final class Replayer<Output, Failure: Error>: @unchecked Sendable {
    private let lock = Lock()
    private let capacity: Int
    private let overflow: Publishers.ReplayOverflow<Failure>

    // Under the lock
    private var retained = Queue<Output>()
    private var next = SequenceNumber.first
    private var completion: Subscribers.Completion<Failure>?
    private var branches: [ReplayBranch<Output, Failure>] = []
    private var upstream: (any Subscription)?
    /// Values below were asked for upstream.
    private var asked = SequenceNumber.first
    private var hasAskedForAll = false

    /// - Parameter capacity: values retained for those that come later, and values that may wait for each subscriber,
    ///   which is one at least.
    init(capacity: Int, overflow: Publishers.ReplayOverflow<Failure>) {
        precondition(capacity >= 0, "A capacity cannot be negative.")
        self.capacity = capacity
        self.overflow = overflow
    }

    deinit { upstream?.cancel() }

    // In

    func append(_ value: Output) {
        lock.lock()
        guard completion == nil else { return lock.unlock() }
        let sequence = next
        next = sequence.advanced(by: 1)
        let gone = retain(value)
        for branch in branches { branch.offer(value, at: sequence) }
        let branches = branches
        lock.unlock()
        _ = gone
        for branch in branches { branch.deliver() }
    }

    /// What those that come later are replayed follows the policy as well. Under `latest` it is one value.
    /// - Returns: what is not retained any more, to be released outside of the lock.
    private func retain(_ value: Output) -> Output? {
        let most: Int
        if case .latest = overflow { most = Swift.min(1, capacity) } else { most = capacity }
        var gone: Output?
        if retained.count >= most {
            switch overflow {
            case .dropNewest: return nil
            case .replaceNewest: gone = retained.popLast()
            case .dropOldest, .latest, .customError, .block: gone = retained.popFirst()
            }
        }
        if most > 0 { retained.append(value) }
        return gone
    }

    func finish(_ completion: Subscribers.Completion<Failure>) {
        lock.lock()
        guard self.completion == nil else { return lock.unlock() }
        self.completion = completion
        let ended = upstream.take()
        let branches = branches
        for branch in branches { branch.offer(completion, at: next) }
        lock.unlock()
        _ = ended
        for branch in branches { branch.deliver() }
    }

    // Upstream

    /// - Returns: false if there is one already, or the stream has ended.
    func connect(_ subscription: any Subscription) -> Bool {
        let isFirst = lock.with {
            guard upstream == nil, completion == nil else { return false }
            upstream = subscription
            return true
        }
        if isFirst { pull() }
        return isFirst
    }

    /// Asks upstream for what the subscribers have room for now: for everything at once, or under `block` for as much
    /// as the slowest of them.
    func pull() {
        lock.lock()
        guard let upstream, !hasAskedForAll else { return lock.unlock() }
        guard case .block = overflow else {
            hasAskedForAll = true
            lock.unlock()
            return upstream.request(.unlimited)
        }
        let horizon = branches.compactMap(\.horizon).min() ?? next
        let more = horizon - asked
        if more > 0 { asked = horizon }
        lock.unlock()
        if more > 0 { upstream.request(.max(more)) }
    }

    // Subscribers

    /// - Parameter owner: lives as long as the subscription.
    func attach<S: Subscriber>(_ subscriber: S, owner: AnyObject) where S.Input == Output, S.Failure == Failure {
        lock.lock()
        // Retained values are numbered as if they were the latest; which of them they were is of no consequence.
        let window = SequenceRange(lower: next.advanced(by: -retained.count), upper: next)
        var cursor = Replay.Subscription(
            start: .all, window: window, buffer: capacity, overflow: overflow.policy, credit: Credit(mode: .outstanding)
        )
        if completion != nil { cursor.topicEnded(.completed, at: next) }
        let branch = ReplaySubscription(
            subscriber, of: self, owner: owner, cursor: cursor, window: (0..<retained.count).map { retained[$0] },
            overflow: overflow,
            end: completion)
        if completion == nil { branches.append(branch) }
        lock.unlock()
        branch.begin()
        pull()
    }

    func remove(_ branch: ReplayBranch<Output, Failure>) {
        let removed = lock.with { () -> ReplayBranch<Output, Failure>? in
            branches.firstIndex { $0 === branch }.map { branches.remove(at: $0) }
        }
        // It may have been the slowest.
        if removed != nil { pull() }
    }
}
