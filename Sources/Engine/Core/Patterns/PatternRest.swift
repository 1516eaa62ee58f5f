// PatternRest: removes the cursors of subscriptions to patterns in topics that have had no messages for a while, and
// with them the views that have no other members.

final class PatternRest: ShardPart {
    let views: ViewTable
    // Above
    unowned(unsafe) var patterns: PatternSubscribing!
    /// Whether views wait for a later turn.
    private var isUnderWay = false
    /// The view that is being visited to make room, and the place below which its other members are.
    private var emptied: (view: TopicView, place: Int)?

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
        guard view.followed != nil else { return }
        let place = removeSome(of: view, below: place, most: PatternSubscribing.slice)
        work.spent += (Swift.min(view.members.count, PatternSubscribing.slice)) / Work.membersPerUnit
        if place > 0 { work.doLater(.rest(view, below: place)) } else { visited(view, now: now) }
    }

    /// Removes the cursors of a view that are up to date, among `most` members from `place` down.
    /// - Returns: the place below which the others are.
    private func removeSome(of view: TopicView, below place: Int, most: Int) -> Int {
        var place = Swift.min(place, view.members.count)
        let end = Swift.max(0, place - most)
        while place > end {
            place -= 1
            let cursor = view.members[place]
            if let subscription = cursor.match?.subscription, subscription.hasBegun, !subscription.isOver,
                cursor.isAtRest
            {
                patterns.remove(cursor)
            }
            place = Swift.min(place, view.members.count)
        }
        return place
    }

    /// All members of a view have been visited. Some may have messages waiting.
    private func visited(_ view: TopicView, now: Instant) {
        if view.hasMatches { views.noteActive(view, since: now.monotonic) }
    }

    /// Continues with a view whose other members were visited, unless it has had messages since.
    func goOn(_ view: TopicView, below place: Int, now: Instant) {
        if view.isAtRest {
            visit(view, below: place, now: now)
        } else {
            views.noteActive(view, since: now.monotonic)
        }
    }

    // When cursors take as much memory as they may

    /// Visits a few cursors, those of the views with the oldest messages first, and removes those that are up to date.
    /// As it is done for each new cursor, those that need not be kept are at most as many as a third of the others.
    func makeRoom(now: Instant) {
        var left = PatternRest.visits
        while left > 0 {
            left -= 1
            if let (view, place) = emptied, place > 0, view.isAtRest, view.followed != nil {
                emptied = (view, removeSome(of: view, below: place, most: 1))
                continue
            }
            if let (view, _) = emptied, views[epoch: view.epoch] === view { visited(view, now: now) }
            emptied = nil
            guard let view = views.nextActive() else { return }
            guard view.isAtRest else {
                views.noteActive(view, since: now.monotonic)
                continue
            }
            view.followed = view.followed ?? view.end
            emptied = (view, view.members.count)
        }
    }
}
