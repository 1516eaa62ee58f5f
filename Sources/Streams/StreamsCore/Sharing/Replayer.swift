// Replayer: one stream in, its last values retained, any number of subscribers, each with a buffer of its own. The
// in-process counterpart of a topic; `shareReplay` and `BufferSubject` are made of it.

import Replay

final class Replayer<Output, Failure: Error>: ReplayHub, @unchecked Sendable {
    typealias Branch = ReplayBranch<Output, Failure>

    private let capacity: Int
    private let overflow: Publishers.ReplayOverflow<Failure>

    // Under the lock
    private(set) var completion: Subscribers.Completion<Failure>?
    private var hasEnded = false
    private let retained: Ring<Output>

    /// - Parameter capacity: values retained for those that come later, and values that may wait for each subscriber,
    ///   which is one at least.
    init(capacity: Int, overflow: Publishers.ReplayOverflow<Failure>) {
        precondition(capacity >= 0, "A capacity cannot be negative.")
        self.capacity = capacity
        self.overflow = overflow
        var blocks = false
        // What those that come later are replayed follows the policy as well. Under `latest` it is one value.
        switch overflow {
        case .dropNewest: retained = Ring(limit: capacity, whenFull: .refuse)
        case .replaceNewest: retained = Ring(limit: capacity, whenFull: .replaceLast)
        case .latest: retained = Ring(limit: Swift.min(capacity, 1), whenFull: .replaceFirst)
        case .dropOldest, .customError: retained = Ring(limit: capacity, whenFull: .replaceFirst)
        case .block:
            retained = Ring(limit: capacity, whenFull: .replaceFirst)
            blocks = true
        }
        super.init(blocks: blocks)
    }

    func append(_ value: Output) {
        shared.lock.lock()
        guard !hasEnded else { return shared.lock.unlock() }
        guard retained.isFull else {
            retained.append(value)
            return distribute(value)
        }
        // Let go of here, and not before: it may be the last to hold it, and its `deinit` may come back.
        let gone = retained.exchange(value)
        distribute(value)
        withExtendedLifetime(gone) {}
    }

    /// Called with the lock held, and lets go of it.
    private func distribute(_ value: Output) {
        next = next.advanced(by: 1)
        // They are held while this is about them, however soon they are cancelled.
        let held = places
        var mine = seats
        var losers: [ReplayPlace] = []
        // Most often it is for all.
        if let first = mine.firstIndex(where: { !$0.state.pointee.beginsWork() }) {
            mine.removeSubrange(first...)
            for index in first..<seats.count { settle(value, at: seats[index], &mine, &losers) }
        }
        shared.lock.unlock()
        for place in losers { place.releaseLost() }
        for seat in mine { seat.place._withUnsafeGuaranteedRef { branch($0).pass(value) } }
        release(mine)
        withExtendedLifetime(held) {}
    }

    /// Under the lock.
    private func settle(
        _ value: Output, at seat: ReplaySeat, _ mine: inout [ReplaySeat], _ losers: inout [ReplayPlace]
    ) {
        if seat.state.pointee.beginsWork() { return mine.append(seat) }
        let place = seat.place.takeUnretainedValue()
        let passes = seat.state.pointee.lane.pass() || branch(place).settle(value)
        if passes, !seat.state.pointee.isAtWork {
            seat.state.pointee.isAtWork = true
            return mine.append(seat)
        }
        if passes { branch(place).keep(value) }
        if seat.state.pointee.hasLost { losers.append(place) }
    }

    /// All places are branches of this type.
    @inline(__always) private func branch(_ place: ReplayPlace) -> Branch { unsafeDowncast(place, to: Branch.self) }

    func finish(_ completion: Subscribers.Completion<Failure>) {
        shared.lock.lock()
        guard !hasEnded else { return shared.lock.unlock() }
        self.completion = completion
        hasEnded = true
        let ended = upstream.take()
        let held = places
        var mine: [ReplaySeat] = []
        for seat in seats {
            let branch = branch(seat.place.takeUnretainedValue())
            branch.end()
            guard !seat.state.pointee.isAtWork, branch.isEndDue else { continue }
            seat.state.pointee.isAtWork = true
            mine.append(seat)
        }
        shared.lock.unlock()
        _ = ended
        release(mine)
        withExtendedLifetime(held) {}
    }

    /// - Returns: false if there is a subscription already, or the stream has ended.
    func connect(_ subscription: any Subscription) -> Bool { connect(subscription) { hasEnded } }

    /// - Parameter owner: lives as long as the subscription.
    func attach<S: Subscriber>(_ subscriber: S, owner: AnyObject) where S.Input == Output, S.Failure == Failure {
        shared.lock.lock()
        let buffer = ReplayBuffer(window: retained.queue, next: next, capacity: capacity, policy: overflow.policy)
        let branch = ReplaySubscription(subscriber, of: self, owner: owner, buffer: buffer, overflow: overflow)
        if hasEnded { branch.end() } else { add(branch) }
        shared.lock.unlock()
        branch.begin()
        pull()
    }
}
