// Replayer: retains the last values of a stream for any number of subscribers, each with its own buffer. A replayer is
// the in-process counterpart of a topic, and the basis of `shareReplay` and `BufferSubject`.

import Replay

final class Replayer<Output, Failure: Error>: ReplayHub, @unchecked Sendable {
    typealias Branch = ReplayBranch<Output, Failure>

    private let capacity: Int
    private let overflow: Publishers.ReplayOverflow<Failure>

    // Protected by the lock.
    private(set) var completion: Subscribers.Completion<Failure>?
    private var hasEnded = false
    private let retained: Ring<Output>

    /// - Parameter capacity: the number of values retained for later subscribers, and of values that may wait for each
    ///   subscriber (for these, at least one).
    init(capacity: Int, overflow: Publishers.ReplayOverflow<Failure>) {
        precondition(capacity >= 0, "A capacity cannot be negative.")
        self.capacity = capacity
        self.overflow = overflow
        var blocks = false
        // The retained values follow the policy as well. Under `latest`, only one is retained.
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
        // Released only here, without the lock: this may be the last reference to an object whose `deinit` calls back.
        let gone = retained.exchange(value)
        distribute(value)
        withExtendedLifetime(gone) {}
    }

    /// Distributes a value. Called with the lock held, which it releases.
    private func distribute(_ value: Output) {
        next = next.advanced(by: 1)
        // Retained during distribution, even if they are cancelled in the meantime.
        let held = places
        var mine = seats
        var losers: [ReplayPlace] = []
        // Usually all subscribers can receive the value immediately.
        if let first = mine.firstIndex(where: { !$0.state.pointee.beginsWork() }) {
            mine.removeSubrange(first...)
            for index in first..<seats.count { resolve(value, at: seats[index], &mine, &losers) }
        }
        shared.lock.unlock()
        for place in losers { place.releaseLost() }
        for seat in mine { seat.place._withUnsafeGuaranteedRef { branch($0).pass(value) } }
        release(mine)
        withExtendedLifetime(held) {}
    }

    /// Called with the lock held.
    private func resolve(
        _ value: Output, at seat: ReplaySeat, _ mine: inout [ReplaySeat], _ losers: inout [ReplayPlace]
    ) {
        if seat.state.pointee.beginsWork() { return mine.append(seat) }
        let place = seat.place.takeUnretainedValue()
        let passes = seat.state.pointee.lane.pass() || branch(place).resolve(value)
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

    /// - Returns: false if there is already a subscription, or the stream has ended.
    func connect(_ subscription: any Subscription) -> Bool { connect(subscription) { hasEnded } }

    /// - Parameter owner: kept alive by the subscription.
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
