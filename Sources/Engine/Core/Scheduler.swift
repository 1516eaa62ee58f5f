// Scheduler: goes on in each turn with what earlier ones left for later, some of each kind, and with sweeps over all
// connections or topics.

final class Scheduler: ShardPart {//@
    /// Goes on with what was left for later, as far as half a turn allows: each has one quantum. One of each kind at a
    /// time, so that no kind waits for another.
    public func goOn(now: Instant) {
        moment = now
        if !work.sweeps.isEmpty { goOnSweeping(now: now) }
        let end = work.spent + Work.turn / 2
        var left = work.count
        while left > 0, work.spent < end {
            let before = left
            if let view = work.views.popFirst() {
                left -= 1
                view.isInLine = false
                view.goOn(most: slice, now: now)
            }
            if let connection = work.endings.popFirst() {
                left -= 1
                connection.isEnding = false
                dropStreams(of: connection, now: now)
            }
            if let topic = work.topics.popFirst() {
                left -= 1
                topic.refuseSomePublishers()
                if topic.refused == nil { forgetIfUnused(topic) }
            }
            if let connection = work.backlog.popFirst() {
                left -= 1
                connection.isBehind = false
                take(connection, now: now)
                charge(connection)
                settle(now)
            }
            if let subscriber = work.forms.popFirst() {
                left -= 1
                subscriber.awaitsForm = false
                if subscriber.isMember { deliver(subscriber, now: now) }
            }
            if left == before { break }
        }
        settle(now)
        // However much that was, what comes now has its turn, too.
        work.spent = Swift.min(work.spent, Work.turn / 2)
    }

    /// Has all connections or topics gone over, from the first on, some of them at once.
    func sweep(_ reason: Sweep.Reason, now: Instant) {
        var sweep = Sweep(reason: reason)
        if reason == .permissions {
            sweep.review = Review(access)
            sweep.review?.takeOver(work.sweeps.first { $0.reason == reason }?.review)
        }
        work.sweeps.removeAll { $0.reason == reason }
        work.sweeps.insert(sweep, at: 0)
        goOnSweeping(now: now)
    }

    func isSweeping(_ reason: Sweep.Reason) -> Bool { work.sweeps.contains { $0.reason == reason } }

    /// The sweep whose turn it is goes on, and gets in line.
    private func goOnSweeping(now: Instant) {
        guard var sweep = work.sweeps.first else { return }
        work.sweeps.removeFirst()
        var left = Work.sweep
        let end = work.spent + Work.turn / 2
        while left > 0, work.spent < end, sweep.place < places(of: sweep) {
            left -= 1
            switch sweep.reason {
            case .settings: topics.held(at: sweep.place).map { adopt($0, now: now) }
            case .drainingTopics: topics.held(at: sweep.place)?.refusePublishers(Refusal.draining)
            case .drainingConnections: connections.at(sweep.place).map { drain($0, now: now) }
            case .unacknowledged: connections.at(sweep.place).map { giveUpUnacknowledged(of: $0, now: now) }
            case .countingUnread: connections.at(sweep.place).map(countUnread)
            case .freeingUnread: connections.at(sweep.place).map { freeUnread(of: $0, now: now) }
            case .holdingBack: connections.at(sweep.place).map { limitHoldingBack($0, now: now) }
            case .permissions:
                guard let connection = connections.at(sweep.place) else { break }
                if sweep.streams == nil { reload(connection, &sweep.review) }
                sweep.streams = review(
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
        case .freeingUnread: isUnreadTooMuch ? connections.bound : 0
        // Enough has been given up.
        case .unacknowledged: memory.used > memory.limit ? connections.bound : 0
        }
    }

}
