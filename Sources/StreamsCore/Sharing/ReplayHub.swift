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

/// One subscriber of a replayer.
class ReplayPlace: @unchecked Sendable {
    // Under the lock
    final var lane = ReplayLane()
    /// Some thread delivers, as one does from the beginning.
    final var isAtWork = true
    /// Something may be ready, or the end be due.
    final var hasMore = true
    /// Values were lost, and are to be released.
    final var hasLost = false

    /// Ended or cancelled; set under the lock, read by anyone.
    final let over = Atomic<Bool>(false)
    final var isOver: Bool { over.load(ordering: .relaxed) }

    // For who is at work
    /// What the subscriber asked for by what it returned.
    final var returned = Subscribers.Demand.none

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

class ReplayHub: @unchecked Sendable {
    final let shared = ReplayLock()
    private let blocks: Bool

    // Under the lock
    final var places: [ReplayPlace] = []
    final var next = SequenceNumber.first
    final var upstream: (any Subscription)?
    /// Values below were asked for upstream.
    private var asked = SequenceNumber.first

    init(blocks: Bool) { self.blocks = blocks }

    deinit { upstream?.cancel() }

    /// This thread is done with places where it was at work; it goes on where there is more to be delivered.
    final func release(_ released: [ReplayPlace]) {
        var mine = released
        while !mine.isEmpty {
            var busy: [ReplayPlace] = []
            var over: [ReplayPlace] = []
            shared.lock.lock()
            for place in mine {
                if place.returned > .none {
                    if !place.isOver, !place.lane.grant(place.returned) { place.grant(place.returned) }
                    place.returned = .none
                }
                if place.isOver {
                    over.append(place)
                } else if place.hasMore, place.takeNext() {
                    busy.append(place)
                    if place.isOver { forget(place) }
                } else {
                    place.hasMore = false
                    place.isAtWork = false
                }
            }
            shared.lock.unlock()
            for place in over { place.clear() }
            for place in busy { place.deliver() }
            mine = busy
        }
        pull()
    }

    /// A place is over. The lock is held, and the caller holds the place.
    final func forget(_ place: ReplayPlace) {
        if let index = places.firstIndex(where: { $0 === place }) { places.remove(at: index) }
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
