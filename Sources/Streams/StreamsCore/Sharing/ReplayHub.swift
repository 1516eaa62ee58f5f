// ReplayHub: a replayer and its branches, as far as it does not matter what the values are. Where generic code is not
// specialised – and that of a library is not, in the modules of others – each step of it costs many times as much.
//
// A value goes to every branch under the lock that all share, so that all see the same order. Where it is for the
// subscriber at once and nobody else is at work there, the thread that brought it is from then on, and delivers it with
// no lock held. When it is through with all of them it looks, under the lock again, what has become ready meanwhile:
// two turns of the lock for a value, however many subscribers there are.

import Replay
import Synchronization

/// The lock of a replayer, which is there as long as one of its branches.
final class ReplayLock: Sendable {
    let lock = Lock()
}

/// What a place is looked at for with each value. It does not stand in the object, as each access to a field of one is
/// checked for overlap with others at run time, which took a third of the time that a value takes.
struct ReplayState: ~Copyable {
    // Under the lock
    var lane = ReplayLane()
    /// Some thread delivers, as one does from the beginning.
    var isAtWork = true
    /// Something may be ready, or the end be due.
    var hasMore = true
    /// Values were lost, and are to be released.
    var hasLost = false

    /// Ended or cancelled; set under the lock, read by anyone.
    let over = Atomic<Bool>(false)

    /// Under the lock: a value arrives.
    /// - Returns: whether it is for the subscriber now and the caller is to deliver it, being at work from here on. If
    ///   not, nothing was done.
    @inline(__always) mutating func beginsWork() -> Bool {
        guard !isAtWork, lane.pass() else { return false }
        isAtWork = true
        return true
    }

    /// Under the lock: who was at work has delivered a value.
    /// - Parameter returned: what the subscriber asked for by what it returned.
    /// - Returns: whether there is nothing more to do, and nobody is at work any more.
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
    /// For who is at work: what the subscriber asked for by what it returned. Apart from the state, as it is written
    /// without the lock.
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

    /// Under the lock: the subscriber asked for more.
    func grant(_ demand: Subscribers.Demand) { preconditionFailure("a subclass does this") }
    /// Under the lock: takes out what is to be delivered next: what is ready, or the end, with which it is over.
    /// - Returns: false if there is nothing.
    func takeNext() -> Bool { preconditionFailure("a subclass does this") }
    /// Under the lock, and `block`: values below may be sent without more waiting than there is room for.
    func horizon() -> SequenceNumber? { preconditionFailure("a subclass does this") }
    /// Delivers what was taken out. Called by who is at work.
    func deliver() { preconditionFailure("a subclass does this") }
    /// Lets go of everything. It is over, and nobody else is at work.
    func clear() { preconditionFailure("a subclass does this") }
    /// Releases what was lost.
    func releaseLost() { preconditionFailure("a subclass does this") }
}

/// A place as it stands in a list that is gone through for each value: not counted as held by that. Who uses it sees to
/// it that the place is.
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

    // Under the lock
    private(set) final var places: [ReplayPlace] = []
    /// The same ones.
    private(set) final var seats: [ReplaySeat] = []
    final var next = SequenceNumber.first
    final var upstream: (any Subscription)?
    /// Values below were asked for upstream.
    private var asked = SequenceNumber.first

    init(blocks: Bool) { self.blocks = blocks }

    deinit { upstream?.cancel() }

    /// This thread is done with places where it was at work; it goes on where there is more to be delivered. The caller
    /// holds them.
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
                    if place.isOver { forget(place) }
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

    /// A place is taken. The lock is held.
    final func add(_ place: ReplayPlace) {
        places.append(place)
        seats.append(ReplaySeat(place))
    }

    /// A place is over. The lock is held, and the caller holds the place.
    final func forget(_ place: ReplayPlace) {
        guard let index = places.firstIndex(where: { $0 === place }) else { return }
        places.remove(at: index)
        seats.remove(at: index)
    }

    /// - Returns: false if there is a subscription already, or the stream has ended.
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

    /// Under `block`, asks upstream for as much as the slowest subscriber has room for now.
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
