// Scheduler: continues in each turn the work that earlier turns deferred, some of each kind, and sweeps over all
// connections or topics.

final class Scheduler: ShardPart {
    let connections: ConnectionTable
    let topics: TopicTable
    let authorization: Authorization
    let users: ConnectionUsers
    let delivery: Delivery
    let views: ViewTable
    let ends: StreamEnds
    let ownership: TopicOwnership
    let connectionEnds: ConnectionEnds
    let inputs: ConnectionInputs
    let resumption: Resumption
    let connectionTicks: ConnectionTicks
    let accessReview: AccessReview
    let unreadRelief: UnreadRelief
    let propagation: Propagation

    init(
        _ context: ShardContext, _ connections: ConnectionTable, _ topics: TopicTable, _ authorization: Authorization,
        _ users: ConnectionUsers, _ delivery: Delivery, _ views: ViewTable, _ ends: StreamEnds,
        _ ownership: TopicOwnership, _ connectionEnds: ConnectionEnds, _ inputs: ConnectionInputs,
        _ resumption: Resumption, _ connectionTicks: ConnectionTicks, _ accessReview: AccessReview,
        _ unreadRelief: UnreadRelief, _ propagation: Propagation
    ) {
        self.connections = connections
        self.topics = topics
        self.authorization = authorization
        self.users = users
        self.delivery = delivery
        self.views = views
        self.ends = ends
        self.ownership = ownership
        self.connectionEnds = connectionEnds
        self.inputs = inputs
        self.resumption = resumption
        self.connectionTicks = connectionTicks
        self.accessReview = accessReview
        self.unreadRelief = unreadRelief
        self.propagation = propagation
        super.init(context)
    }

    /// Continues deferred work for at most half a turn. Each item gets one quantum, and kinds alternate, so that no
    /// kind waits for another.
    func goOn(now: Instant) {
        if !work.sweeps.isEmpty { goOnSweeping(now: now) }
        let end = work.spent + Work.turn / 2
        var left = work.count
        while left > 0, work.spent < end {
            let before = left
            if let view = work.nextView() {
                left -= 1
                view.goOn(most: views.slice, now: now)
            }
            if let connection = work.nextEnding() {
                left -= 1
                ends.dropStreams(of: connection, now: now)
            }
            if let topic = work.nextTopic() {
                left -= 1
                topic.publishers.refuseSome()
                if topic.publishers.refusal == nil { ownership.removeIfUnused(topic) }
            }
            if let connection = work.nextBehind() {
                left -= 1
                inputs.take(connection, now: now)
                connections.charge(connection)
                propagation.run(now)
            }
            if let subscriber = work.nextForm() {
                left -= 1
                if subscriber.isMember { delivery.deliver(subscriber, now: now) }
            }
            if let deferred = work.nextPatternWork() {
                left -= 1
                delivery.subscribing.patterns.goOn(deferred, now: now)
                propagation.run(now)
            }
            if left == before { break }
        }
    }

    /// Starts a sweep over all connections or topics, beginning with the first slots at once.
    func sweep(_ reason: Sweep.Reason, now: Instant) {
        var sweep = Sweep(reason: reason)
        if reason == .permissions {
            sweep.review = Review(authorization.access)
            sweep.review?.takeOver(work.sweeps.first { $0.reason == reason }?.review)
        }
        work.sweeps.removeAll { $0.reason == reason }
        work.sweeps.insert(sweep, at: 0)
        goOnSweeping(now: now)
    }

    func isSweeping(_ reason: Sweep.Reason) -> Bool { work.sweeps.contains { $0.reason == reason } }

    /// Continues the sweep at the head of the queue, then moves it to the tail.
    private func goOnSweeping(now: Instant) {
        guard var sweep = work.sweeps.first else { return }
        work.sweeps.removeFirst()
        var left = Work.sweep
        let end = work.spent + Work.turn / 2
        while left > 0, work.spent < end, sweep.place < places(of: sweep) {
            left -= 1
            switch sweep.reason {
            case .settings: topics.held(at: sweep.place)?.retain(now: now)
            case .drainingTopics: topics.held(at: sweep.place)?.publishers.refuse(Refusal.draining)
            case .drainingConnections: connections.at(sweep.place).map { connectionEnds.drain($0, now: now) }
            case .unacknowledged: connections.at(sweep.place).map { resumption.giveUpUnacknowledged(of: $0, now: now) }
            case .countingUnread: connections.at(sweep.place).map { unreadRelief.countUnread(of: $0) }
            case .freeingUnread: connections.at(sweep.place).map { unreadRelief.freeUnread(of: $0, now: now) }
            case .holdingBack: connections.at(sweep.place).map { connectionTicks.limitHoldingBack($0, now: now) }
            case .permissions:
                guard let connection = connections.at(sweep.place) else { break }
                if sweep.streams == nil { users.reload(connection, &sweep.review) }
                sweep.streams = accessReview.review(
                    connection, sweep.streams ?? connection.streams.count, &sweep.review, most: &left, now: now)
                if sweep.streams != nil { continue }
            }
            sweep.place += 1
        }
        work.spent += (Work.sweep - left) * Work.ending
        if sweep.place < places(of: sweep) {
            work.sweeps.append(sweep)
        } else if var review = sweep.review {
            review.takeOver(effects.reviewed)
            effects.reviewed = review
        }
    }

    private func places(of sweep: Sweep) -> Int {
        switch sweep.reason {
        case .settings, .drainingTopics: topics.heldBound
        case .drainingConnections, .permissions, .countingUnread: connections.bound
        case .holdingBack: memory.isPendingHigh ? connections.bound : 0
        case .freeingUnread: unreadRelief.isUnreadTooMuch ? connections.bound : 0
        // Enough memory has been freed.
        case .unacknowledged: memory.isFull ? connections.bound : 0
        }
    }
}
