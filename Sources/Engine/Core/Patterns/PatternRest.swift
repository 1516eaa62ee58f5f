// PatternRest: removes the cursors of subscriptions to patterns in topics that have had no messages for a while, and
// with them the views that have no other members.

final class PatternRest: ShardPart {
    let views: ViewTable
    // Above
    unowned(unsafe) var patterns: PatternSubscribing!
    /// Whether views wait for a later turn.
    private var isUnderWay = false
    /// The epoch of the first active view if it is being visited to make room, and the index below which its members
    /// have not been visited.
    private var clearing: (epoch: UInt64, place: Int)?

    init(_ context: ShardContext, _ views: ViewTable) {
        self.views = views
        super.init(context)
    }

    /// Time without a message after which cursors that are up to date are removed.
    static let time = 5 * Limits.second

    /// Cursors and views that are visited to make room for a cursor.
    private static let visits = 4

    /// Views whose cursors are removed before other work has its turn.
    private static let slice = 32

    /// Removes the cursors of views that have had no messages for a while; called in each tick.
    func begin(now: Instant) {
        if !isUnderWay { goOn(now: now) }
    }

    func goOn(now: Instant) {
        isUnderWay = false
        var left = PatternRest.slice
        while let (view, since) = views.active.first, since.addingClamped(PatternRest.time) <= now.monotonic {
            guard left > 0 else {
                isUnderWay = true
                return work.doLater(.restOthers)
            }
            left -= 1
            work.spent += 1
            _ = views.nextActive()
            if view.advancedAt > since || !view.isAtRest {
                views.noteActive(view, since: view.isAtRest ? view.advancedAt : now.monotonic)
            } else {
                view.followed = view.followed ?? view.end
                visit(view, below: view.members.count, now: now)
            }
        }
    }

    /// Visits some of a view's members, from `place` down.
    private func visit(_ view: TopicView, below place: Int, now: Instant) {
        let place = removeSome(of: view, below: place, most: PatternSubscribing.slice)
        work.spent += (Swift.min(view.members.count, PatternSubscribing.slice)) / Work.membersPerUnit
        if place > 0 { work.doLater(.rest(view, below: place)) } else { visited(view, now: now) }
    }

    /// Visits up to `most` cursors of a view, from `place` down, and removes those that are up to date.
    /// - Returns: the index below which members have not been visited.
    private func removeSome(of view: TopicView, below place: Int, most: Int) -> Int {
        guard let followed = view.followed else { return 0 }
        var place = Swift.min(place, view.members.count)
        let end = Swift.max(0, place - PatternSubscribing.slice)
        var left = most
        while place > end, left > 0 {
            place -= 1
            let cursor = view.members[place]
            guard let subscription = cursor.match?.subscription else { continue }
            left -= 1
            // A cursor that was made in this turn may have received more than the view knows of.
            if !subscription.isOver, cursor.isAtRest, cursor.cursor.knownEnd <= followed {
                patterns.remove(cursor)
            }
            place = Swift.min(place, view.members.count)
        }
        return place
    }

    /// All members of a view have been visited, or messages have arrived since. Some may have messages waiting.
    private func visited(_ view: TopicView, now: Instant) {
        if view.hasMatches || view.joining != nil { views.noteActive(view, since: now.monotonic) }
    }

    /// Continues with a view whose other members were visited, unless it has had messages since.
    func goOn(_ view: TopicView, below place: Int, now: Instant) {
        if view.isAtRest { visit(view, below: place, now: now) } else { visited(view, now: now) }
    }

    // When cursors take as much memory as they may

    /// Visits a few cursors, in the views that were queued first, and removes those that are up to date. As it is done
    /// for each new cursor, those that need not be kept are at most about as many as the others.
    func makeRoom(now: Instant) {
        for _ in 0..<PatternRest.visits {
            guard let view = views.active.first?.view else { return }
            var place = begun(view)
            if view.isAtRest { place = removeSome(of: view, below: place, most: 1) }
            clearing = (view.epoch, place)
            guard place == 0 || !view.isAtRest else { continue }
            clearing = nil
            _ = views.nextActive()
            visited(view, now: now)
        }
    }

    /// Where the visit of the first active view goes on.
    private func begun(_ view: TopicView) -> Int {
        if let clearing, clearing.epoch == view.epoch { return clearing.place }
        work.spent += 1
        if view.isAtRest { view.followed = view.followed ?? view.end }
        return view.members.count
    }
}
