// PatternRest: removes the cursors of subscriptions to patterns in topics that have had no messages for a while, and
// with them the views that have no other members.

final class PatternRest: ShardPart {
    let views: ViewTable
    // Above
    unowned(unsafe) var patterns: PatternSubscribing!
    /// Whether views wait for a later turn.
    private var isUnderWay = false

    init(_ context: ShardContext, _ views: ViewTable) {
        self.views = views
        super.init(context)
    }

    /// Time without a message after which cursors that are up to date are removed.
    static let time = 5 * Limits.second

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
            views.active.popFirst()
            view.isActive = false
            guard views[epoch: view.epoch] === view else { continue }
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
        var place = Swift.min(place, view.members.count)
        let end = Swift.max(0, place - PatternSubscribing.slice)
        while place > end {
            guard view.followed != nil else { return }
            place -= 1
            let cursor = view.members[place]
            if let subscription = cursor.match?.subscription, subscription.hasBegun, !subscription.isOver,
                cursor.isAtRest
            {
                patterns.remove(cursor)
            }
            place = Swift.min(place, view.members.count)
        }
        work.spent += (Swift.min(view.members.count, PatternSubscribing.slice)) / Work.membersPerUnit
        if place > 0 {
            work.doLater(.rest(view, below: place))
        } else if view.hasMatches {
            views.noteActive(view, since: now.monotonic)
        }
    }

    /// Continues with a view whose other members were visited, unless it has had messages since.
    func goOn(_ view: TopicView, below place: Int, now: Instant) {
        if view.isAtRest {
            visit(view, below: place, now: now)
        } else {
            views.noteActive(view, since: now.monotonic)
        }
    }
}
