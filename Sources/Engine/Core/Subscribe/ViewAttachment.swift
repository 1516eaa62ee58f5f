// ViewAttachment: creates a shard's views of topics, attaches them to the topics' logs, and removes those that no
// subscription uses any longer.
//
//     no view ─subscribe▶ waits for the owner ─▶ attached ─▶ empty ─▶ removed, and the owner is notified
//        └─────── the owner sends one, for subscriptions to patterns ──▲

import Replay

final class ViewAttachment: ShardPart {
    let topics: TopicTable
    let reading: Reading
    let views: ViewTable
    let ends: StreamEnds
    let ownership: TopicOwnership
    let subscribing: Subscribing
    let patterns: PatternSubscribing

    init(
        _ context: ShardContext, _ topics: TopicTable, _ reading: Reading, _ views: ViewTable, _ ends: StreamEnds,
        _ ownership: TopicOwnership, _ subscribing: Subscribing, _ patterns: PatternSubscribing
    ) {
        self.topics = topics
        self.reading = reading
        self.views = views
        self.ends = ends
        self.ownership = ownership
        self.subscribing = subscribing
        self.patterns = patterns
        super.init(context)
    }

    /// The shard's view of a topic. If there is none, the topic's log is requested from the owner.
    func view(
        of name: String, on connection: Connection, for account: Account?, now: Instant
    ) throws(Refusal) -> TopicView {
        if let view = views[name] { return view }
        let owner = owner(of: name)
        guard owner == index else {
            let view = TopicView(name: name, owner: owner, views: views)
            views.insert(view)
            // Subscribing and canceling repeatedly must not cause more work than the owner can handle.
            reading.forward(MessageBatch.envelope, of: connection)
            send(.attach(name: name, shard: index, account, connection.id), to: owner)
            return view
        }
        let topic = try ownership.topic(named: name, for: account, now: now)
        let view = TopicView(name: name, owner: owner, views: views, log: topic.log, end: topic.committed)
        views.insert(view)
        if topic.isCurrent {
            attach(view, to: topic, now: now)
        } else {
            topic.shared?.attach(index)
        }
        return view
    }

    /// Attaches a view to a topic that this shard owns, and follows for subscriptions to patterns.
    func attachView(to topic: Topic, now: Instant) {
        assert(views[epoch: topic.epoch] == nil)
        work.spent += Work.subscribing
        if !topic.isDeleted, let view = views[topic.name] {
            guard view.isAttached else { return attach(view, to: topic, now: now) }
            views.removeName(of: view)
        }
        let view = TopicView(name: topic.name, owner: index, views: views, log: topic.log, end: topic.committed)
        if !topic.isDeleted { views.insert(view) }
        attach(view, to: topic, now: now)
    }

    /// Attaches a view to a topic that this shard owns.
    func attach(_ view: TopicView, to topic: Topic, wasEmpty: Bool = false, now: Instant) {
        view.epoch = topic.epoch
        view.state = topic.visibleState
        view.lost = topic.window.lost
        view.lostAtEnd = topic.lostAtEnd
        view.store = topic.window.stored?.reference
        view.typical = topic.publishers.room.typical
        let waiting = view.attach(end: topic.committed)
        views.attach(view)
        view.followed = topic.views.followed(by: index)
        topic.link(index)
        for subscriber in waiting { subscribing.join(subscriber, wasEmpty: wasEmpty, now: now) }
        joinFollowers(of: view, isEndNew: topic.isEndNew(for: index), now: now)
        // All that waited may have been cancelled: the view is then unlinked again.
        view.markDirty()
    }

    /// Attaches views to the topic's log, which the owner has sent.
    func attached(_ name: String, _ snapshot: TopicSnapshot, now: Instant) {
        // The name of a deleted topic may be another's.
        var view = snapshot.isDeleted ? nil : views[name]
        if snapshot.followed != nil || patterns.table.hasMatch(name), view?.isAttached != false {
            // Sent for subscriptions to patterns. Or it was asked for, but those that waited have the view of a topic
            // with this name that was deleted; the owner may have reported this one to subscriptions to patterns.
            work.spent += Work.subscribing
            if let view { views.removeName(of: view) }
            let made = TopicView(name: name, owner: owner(of: name), views: views)
            if !snapshot.isDeleted { views.insert(made) }
            view = made
        }
        guard let view, !view.isAttached else {
            send(.detach(epoch: snapshot.epoch, shard: index, ViewTotals()), to: owner(of: name))
            return
        }
        view.epoch = snapshot.epoch
        view.state = snapshot.state
        view.retained = snapshot.retained
        view.lost = snapshot.lost
        view.lostAtEnd = snapshot.lostAtEnd
        view.store = snapshot.store
        view.typical = snapshot.typical
        view.followed = snapshot.followed
        views.attach(view)
        for subscriber in view.attach(snapshot) { subscribing.join(subscriber, wasEmpty: snapshot.wasEmpty, now: now) }
        joinFollowers(of: view, isEndNew: snapshot.isEndNew, now: now)
        view.markDirty()
    }

    /// Gives subscriptions to patterns the messages that came before the view was attached, and the topic's end.
    private func joinFollowers(of view: TopicView, isEndNew: Bool, now: Instant) {
        guard let followed = view.followed, followed < view.end || isEndNew else { return }
        patterns.joinAll(view, from: followed, now: now)
    }

    func attachRefused(_ name: String, _ refusal: Refusal) {
        guard let view = views[name] else { return }
        views.removeName(of: view)
        for subscriber in view.refused() { ends.fail(subscriber, refusal) }
    }

    /// Reports the view's progress to the owner, or that no subscription here uses it any longer.
    func report(_ view: TopicView, now: Instant) {
        guard view.isEmpty else {
            guard let progress = view.progress() else { return }
            if view.owner == index {
                topics[epoch: view.epoch]?.heard(progress, from: index, now: now)
            } else {
                view.report(progress)
            }
            return
        }
        guard views.remove(view) else { return }
        view.release()
        let isFollowed = patterns.table.hasMatch(view.name)
        let past = ViewTotals(
            dropped: view.dropped, delivered: view.delivered,
            followed: isFollowed ? view.followed ?? view.end : nil, knowsEnd: view.state.isEnd)
        if view.owner == index {
            ownership.unlink(view.epoch, index, past, now: now)
        } else {
            send(.detach(epoch: view.epoch, shard: index, past), to: view.owner)
        }
    }
}
