// ViewNeeds: what all subscriptions of a view together need: the oldest message that one waits for, and how far `block`
// subscriptions let publishers append. Each change of a subscription updates it in O(log n).

import Replay

final class ViewNeeds {
    /// The oldest waiting message, by member.
    private let oldest = MinimumTree()
    /// The members with the policy `block`.
    private var blockers: [Subscriber] = []
    /// For each blocker that is not `isInStep`: from where nothing may be evicted, and how far publishers may append.
    private let floors = MinimumTree()
    private let horizons = MinimumTree()
    /// For each blocker that is `isInStep`: how far beyond the round publishers may append. Messages that it receives
    /// at once do not change this.
    private let buffers = MinimumTree()
    /// The last progress reported to the owner.
    private var reported: ViewProgress?

    /// Adds a subscription, which has joined as the last member.
    func add(_ subscriber: Subscriber) {
        assert(subscriber.member == oldest.count)
        let cursor = (
            needed: subscriber.cursor.cursor.value, isWaiting: subscriber.cursor.waiting > 0,
            floor: subscriber.cursor.floor?.value ?? MinimumTree.none,
            horizon: subscriber.cursor.horizon?.value ?? MinimumTree.none
        )
        oldest.append(cursor.isWaiting ? cursor.needed : MinimumTree.none)
        guard subscriber.cursor.overflow == .block else { return }
        subscriber.blocker = blockers.count
        blockers.append(subscriber)
        floors.append(cursor.floor)
        horizons.append(cursor.horizon)
        buffers.append(MinimumTree.none)
    }

    /// Removes a member; the last one moves to its index.
    func remove(_ subscriber: Subscriber) {
        oldest.remove(subscriber.member)
        guard subscriber.isBlocker else { return }
        let last = blockers.removeLast()
        if last !== subscriber {
            blockers[subscriber.blocker] = last
            last.blocker = subscriber.blocker
        }
        floors.remove(subscriber.blocker)
        horizons.remove(subscriber.blocker)
        buffers.remove(subscriber.blocker)
        assert(floors.count == blockers.count && horizons.count == blockers.count && buffers.count == blockers.count)
    }

    /// Indices of the members for which a message before `sequence` waits.
    func members(below sequence: UInt64) -> [Int] { oldest.places(below: sequence) }

    /// Keeps messages from `needed` on for a new member. Returns whether the owner has to be notified.
    func hold(_ needed: SequenceNumber) -> Bool {
        guard needed < reported?.needed ?? .init(.max) else { return false }
        reported?.needed = needed
        return true
    }

    /// Sets the oldest message that waits for a member, or `MinimumTree.none`. Returns whether the minimum has changed.
    @inline(__always)
    func note(_ subscriber: Subscriber, oldest key: UInt64) -> Bool { oldest.set(subscriber.member, key) }

    /// Updates a `block` subscription that has moved or learned of more messages. Returns whether a minimum has
    /// changed.
    /// - Parameter target: the end to which the view advances its members.
    func note(blocker subscriber: Subscriber, target: SequenceNumber) -> Bool {
        var keys = (
            floor: subscriber.cursor.floor?.value ?? MinimumTree.none,
            horizon: subscriber.cursor.horizon?.value ?? MinimumTree.none, buffer: MinimumTree.none
        )
        subscriber.isInStep = subscriber.cursor.waiting == 0 && subscriber.cursor.knownEnd <= target
        if subscriber.isInStep, keys.floor != MinimumTree.none {
            keys = (MinimumTree.none, MinimumTree.none, keys.horizon - keys.floor)
        }
        // Update all three: different subscriptions may limit the bytes and the messages.
        let isFloor = floors.set(subscriber.blocker, keys.floor)
        let isHorizon = horizons.set(subscriber.blocker, keys.horizon)
        return buffers.set(subscriber.blocker, keys.buffer) || isFloor || isHorizon
    }

    /// The progress that the owner must know of.
    /// - Parameter seen: the end that all members have reached.
    func progress(
        seen: SequenceNumber, subscriptions: Int, dropped: DropCounts, delivered: UInt64
    ) -> ViewProgress {
        let isAnyInStep = buffers.minimum != MinimumTree.none
        let horizon = isAnyInStep ? seen.value + buffers.minimum : MinimumTree.none
        let floor = isAnyInStep ? seen.value : MinimumTree.none
        return ViewProgress(
            seen: seen, needed: Swift.min(seen, SequenceNumber(oldest.minimum)),
            horizon: sequence(Swift.min(horizon, horizons.minimum)), floor: sequence(Swift.min(floor, floors.minimum)),
            subscriptions: subscriptions, dropped: dropped, delivered: delivered)
    }

    private func sequence(_ key: UInt64) -> SequenceNumber? { key == MinimumTree.none ? nil : SequenceNumber(key) }

    /// Records a report to the owner. Returns false if the owner already knows the progress.
    func record(_ progress: ViewProgress) -> Bool {
        guard progress != reported else { return false }
        reported = progress
        return true
    }
}
