// ReplayHub: the part of a replayer and its branches that does not depend on the type of the values. Unspecialized
// generic code costs many times as much, and a library's generic code is not specialized in other modules.
//
// Each value is distributed to all branches under one shared lock, so that all see the same order. If a subscriber can
// receive the value immediately and no other thread is delivering to that subscriber, the current thread starts
// delivering, without the lock. After delivering to all of these subscribers, the thread takes the lock again to check
// what has become ready in the meantime. So each value takes the lock twice, however many subscribers there are.

import Replay
import Synchronization

/// The lock of a replayer. The lock lives as long as any branch.
final class ReplayLock: Sendable {
    let lock = Lock()
}

/// The state that is checked for each value. This state is outside of the object because every access to an object's
/// field is checked for exclusivity at run time, which took a third of the time per value.
struct ReplayState: ~Copyable {
    // Protected by the lock.
    var lane = ReplayLane()
    /// Whether a thread is delivering. True from the beginning.
    var isAtWork = true
    /// Whether values may be ready, or the completion may be due.
    var hasMore = true
    /// Whether there are lost values to release.
    var hasLost = false

    /// Ended or cancelled; set under the lock, read from any thread.
    let over = Atomic<Bool>(false)

    /// Begins to deliver a value that has arrived, if possible. Called with the lock held.
    /// - Returns: true if the caller must deliver it now; the caller is then the delivering thread. If false, nothing
    ///   has changed.
    @inline(__always) mutating func beginsWork() -> Bool {
        guard !isAtWork, lane.pass() else { return false }
        isAtWork = true
        return true
    }

    /// Ends the delivery of a value. Called by the delivering thread, with the lock held.
    /// - Parameter returned: the demand that the subscriber returned.
    /// - Returns: true if there is nothing more to do, in which case no thread is delivering.
    @inline(__always) mutating func endsWork(_ returned: inout Subscribers.Demand) -> Bool {
        guard !hasMore, !over.load(ordering: .relaxed) else { return false }
        if returned > .none {
            guard lane.grant(returned) else { return false }
            returned = .none
        }
        isAtWork = false
        return true
    }
}

/// One subscriber of a replayer.
class ReplayPlace: @unchecked Sendable {
    final let state = UnsafeMutablePointer<ReplayState>.allocate(capacity: 1)
    /// Used only by the thread that is delivering: the demand that the subscriber returned. This is separate from the
    /// state because it is written without the lock.
    final let returned = UnsafeMutablePointer<Subscribers.Demand>.allocate(capacity: 1)
    final var isOver: Bool { state.pointee.over.load(ordering: .relaxed) }

    init() {
        state.initialize(to: ReplayState())
        returned.initialize(to: .none)
    }

    deinit {
        returned.deallocate()
        state.deinitialize(count: 1)
        state.deallocate()
    }

    /// Grants what the subscriber has requested. Called with the lock held.
    func grant(_ demand: Subscribers.Demand) { preconditionFailure("A subclass must override this.") }
    /// Takes what must be delivered next: ready values, or the completion, which ends the branch. Called with the lock
    /// held.
    /// - Returns: false if there is nothing to deliver.
    func takeNext() -> Bool { preconditionFailure("A subclass must override this.") }
    /// Under `block`: values below this number can be sent without exceeding the buffer. Called with the lock held.
    func horizon() -> SequenceNumber? { preconditionFailure("A subclass must override this.") }
    /// Delivers what was taken. Called by the thread that is delivering.
    func deliver() { preconditionFailure("A subclass must override this.") }
    /// Releases everything. Called after the end, when no other thread is delivering.
    func clear() { preconditionFailure("A subclass must override this.") }
    /// Releases lost values.
    func releaseLost() { preconditionFailure("A subclass must override this.") }
}

/// A place as listed for distribution: an unretained reference. Its user must ensure that the place is alive.
struct ReplaySeat {
    let place: Unmanaged<ReplayPlace>
    let state: UnsafeMutablePointer<ReplayState>
    let returned: UnsafeMutablePointer<Subscribers.Demand>

    init(_ place: ReplayPlace) {
        self.place = .passUnretained(place)
        state = place.state
        returned = place.returned
    }
}

class ReplayHub: @unchecked Sendable {
    final let shared = ReplayLock()
    private let blocks: Bool

    // Protected by the lock.
    private(set) final var places: [ReplayPlace] = []
    /// Unretained references to `places`.
    private(set) final var seats: [ReplaySeat] = []
    final var next = SequenceNumber.first
    final var upstream: (any Subscription)?
    /// Values below this number have been requested from upstream.
    private var asked = SequenceNumber.first

    init(blocks: Bool) { self.blocks = blocks }

    deinit { upstream?.cancel() }

    /// Ends the deliveries of this thread to these places, after delivering whatever has become ready. The caller
    /// retains the places.
    final func release(_ released: [ReplaySeat]) {
        var rest: [ReplaySeat] = []
        shared.lock.lock()
        for seat in released where !seat.state.pointee.endsWork(&seat.returned.pointee) { rest.append(seat) }
        shared.lock.unlock()
        if !rest.isEmpty { work(at: rest.map { $0.place.takeUnretainedValue() }) }
        pull()
    }

    private func work(at places: [ReplayPlace]) {
        var mine = places
        while !mine.isEmpty {
            var busy: [ReplayPlace] = []
            var over: [ReplayPlace] = []
            shared.lock.lock()
            for place in mine {
                let state = place.state
                let returned = place.returned.pointee
                if returned > .none {
                    if !place.isOver, !state.pointee.lane.grant(returned) { place.grant(returned) }
                    place.returned.pointee = .none
                }
                if place.isOver {
                    over.append(place)
                } else if state.pointee.hasMore, place.takeNext() {
                    busy.append(place)
                    if place.isOver { discard(place) }
                } else {
                    state.pointee.hasMore = false
                    state.pointee.isAtWork = false
                }
            }
            shared.lock.unlock()
            for place in over { place.clear() }
            for place in busy { place.deliver() }
            mine = busy
        }
    }

    /// Adds a place. Called with the lock held.
    final func add(_ place: ReplayPlace) {
        places.append(place)
        seats.append(ReplaySeat(place))
    }

    /// Removes a place that has ended. Called with the lock held; the caller retains the place.
    final func discard(_ place: ReplayPlace) {
        guard let index = places.firstIndex(where: { $0 === place }) else { return }
        places.remove(at: index)
        seats.remove(at: index)
    }

    /// - Returns: false if there is already a subscription, or the stream has ended.
    final func connect(_ subscription: any Subscription, unless hasEnded: () -> Bool) -> Bool {
        let isFirst = shared.lock.with {
            guard upstream == nil, !hasEnded() else { return false }
            upstream = subscription
            return true
        }
        guard isFirst else { return false }
        if blocks { pull() } else { subscription.request(.unlimited) }
        return true
    }

    /// Under `block`: requests as many values from upstream as the slowest subscriber has room for.
    final func pull() {
        guard blocks else { return }
        shared.lock.lock()
        let horizon = places.compactMap { $0.horizon() }.min() ?? next
        let more = horizon - asked
        guard more > 0, let upstream else { return shared.lock.unlock() }
        asked = horizon
        shared.lock.unlock()
        upstream.request(.max(more))
    }
}
