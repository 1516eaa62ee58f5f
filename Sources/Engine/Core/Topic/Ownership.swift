// Ownership: a shard's work as the owner of topics: creating, ending and removing them, and linking views to them.

import Bytes
import ForebayWire
import Replay

final class TopicOwnership: ShardPart {
    let timers: Timers
    let auditLog: AuditLog
    let topics: TopicTable
    let rateLimiter: RateLimiter
    let relief: MemoryRelief
    let losses: PublishLosses
    let events: Events
    let views: ViewTable
    let notices: PublisherNotices
    /// Searches for messages that have become too old.
    var ageSearches = SearchQueue<Topic>(most: TimeSearch.mostForTopics)
    /// Topics whose deletion the store has not noted, by name; at most `mostDeletions` of a name, because each new
    /// topic of that name repeats them.
    var unwrittenDeletions = PartitionedDictionary<String, [Topic]>()
    private static let mostDeletions = 16
    // Above
    unowned(unsafe) var calls: ControlRequests!
    unowned(unsafe) var subscribing: Subscribing!
    unowned(unsafe) var attachment: ViewAttachment!
    unowned(unsafe) var followers: PatternFollowers!
    private var lastTicket: UInt64 = 0

    init(
        _ context: ShardContext, _ timers: Timers, _ auditLog: AuditLog, _ topics: TopicTable,
        _ rateLimiter: RateLimiter, _ relief: MemoryRelief, _ losses: PublishLosses, _ events: Events,
        _ views: ViewTable, _ notices: PublisherNotices
    ) {
        self.timers = timers
        self.auditLog = auditLog
        self.topics = topics
        self.rateLimiter = rateLimiter
        self.relief = relief
        self.losses = losses
        self.events = events
        self.views = views
        self.notices = notices
        super.init(context)
    }

    /// The topic with that name. If there is none, it is created and counted for the user that is the first to use it.
    func topic(named name: String, for account: Account?, now: Instant) throws(Refusal) -> Topic {
        if let topic = topics[name] { return topic }
        let topic = try topics.make(name, for: account, by: self)
        timers.schedule(topic, now: now.monotonic)
        followers.noteNew(topic)
        join(topic)
        events.event("topic-created", topic: name, epoch: topic.epoch)
        return topic
    }

    /// The topic of a target that this shard owns, created if necessary.
    func topic(
        of target: PublishTarget, for account: @autoclosure () -> Account?, now: Instant
    ) throws(Refusal) -> Topic {
        if let place = target.place, let topic = topics[place] { return topic }
        let topic = try topic(named: target.name, for: account(), now: now)
        target.place = topic.place
        return topic
    }

    /// Looks up a topic. The broker's own topics exist even before their first message.
    func existing(_ name: String, now: Instant) throws(Refusal) -> Topic {
        if SystemTopic.all.contains(name) { return try topic(named: name, for: nil, now: now) }
        guard let topic = topics[name] else {
            throw Refusal.noTopic(name)
        }
        return topic
    }

    /// Another shard requests a view of a topic.
    func attach(_ name: String, from shard: Int, _ account: Account?, now: Instant) {
        do throws(Refusal) {
            let topic = try topic(named: name, for: account, now: now)
            // The shard follows the topic for a pattern, and its view is on the way.
            if topic.views.isLinked(shard) { return }
            if let shared = topic.shared, !shared.isCurrent { return shared.attach(shard) }
            attach(topic, to: shard)
        } catch {
            send(.attachRefused(name: name, error), to: shard)
        }
    }

    /// Gives a shard a view of a topic that it follows.
    func link(_ topic: Topic, to shard: Int, now: Instant) {
        if shard == index {
            attachment.attachView(to: topic, now: now)
        } else {
            attach(topic, to: shard, wasRequested: false)
        }
    }

    /// - Parameters:
    ///   - wasEmpty: whether subscriptions that wait missed nothing of the topic.
    ///   - wasRequested: whether the shard has asked for the view.
    func attach(_ topic: Topic, to shard: Int, wasEmpty: Bool = false, wasRequested: Bool = true) {
        topic.link(shard)
        send(
            .attached(
                name: topic.name,
                TopicSnapshot(
                    epoch: topic.epoch, state: topic.visibleState, head: topic.log.head, end: topic.committed,
                    charged: topic.log.charged(before: topic.committed),
                    pieces: topic.log.pieces(from: topic.log.head, upTo: topic.committed),
                    holes: topic.log.holes.within(SequenceRange(lower: topic.log.head, upper: topic.committed)),
                    lostAtEnd: topic.lostAtEnd, wasEmpty: wasEmpty, wasRequested: wasRequested,
                    followed: topic.views.followed(by: shard),
                    isEndNew: topic.isEndNew(for: shard), isDeleted: topic.isDeleted,
                    retained: topic.retained, lost: topic.window.lost, store: topic.window.stored?.reference,
                    typical: topic.publishers.room.typical)), to: shard)
    }

    /// A number for the next ticket, or the next use of a topic.
    func nextTicket() -> UInt64 {
        lastTicket += 1
        return lastTicket
    }

    func newTicket() -> PublishTicket { PublishTicket(shard: index, number: nextTicket()) }

    func unlink(_ epoch: UInt64, _ shard: Int, _ past: ViewTotals, now: Instant) {
        guard let topic = topics[epoch: epoch] else { return }
        topic.unlink(shard, past, now: now)
        removeIfUnused(topic)
    }

    /// Advances a view, here or on another shard.
    func notifyView(_ shard: Int, topic: Topic, advance: LogAdvance, now: Instant) {
        if shard == index {
            guard let view = views[epoch: topic.epoch] else { return }
            view.advance(advance, now: now)
            subscribing.advanced(view, now: now)
            // At once, so that the view's needs are known before the head of the log is evicted. An empty view is
            // unlinked later, because the topic is iterating over its views now.
            if !view.isEmpty, let progress = view.progress() { topic.heard(progress, from: index, now: now) }
        } else {
            send(.advance(epoch: topic.epoch, advance), to: shard)
        }
    }

    func notifyOwnView(topic: Topic, lostBefore sequence: SequenceNumber, now: Instant) {
        guard let view = views[epoch: topic.epoch], view.sharesLog else { return }
        view.lose(before: sequence, now: now)
    }

    /// Throws if the topic cannot be ended or deleted, because it is ending, or its store has failed.
    func expectEndable(_ topic: Topic) throws(Refusal) {
        if topic.isEnding { throw topic.endingRefusal }
        if topic.isStored, store.hasFailed { throw Refusal.storeFailed }
    }

    /// Throws if the topic cannot be deleted, because its store has failed, or has to note too many deletions of topics
    /// of that name first.
    func expectDeletable(_ topic: Topic) throws(Refusal) {
        try expectEndable(topic)
        guard let unwritten = unwrittenDeletions[topic.name], unwritten.count >= TopicOwnership.mostDeletions else {
            return
        }
        throw Refusal(
            .limit,
            "\(unwritten.count) deletions of topics named '\(topic.name)' are waiting for the store, the maximum; "
                + "try again later.")
    }

    /// Ends a topic permanently. Its name can be used for a new one at once.
    func delete(_ topic: Topic, now: Instant) {
        if topic.isShared { topic.requestEnd(.deleted, now: now) } else { endHere(topic, now: now) }
    }

    func endHere(_ topic: Topic, now: Instant) {
        topic.delete(now: now)
        remove(topic)
        events.event("topic-deleted", topic: topic.name, epoch: topic.epoch)
    }

    func remove(_ topic: Topic) {
        refuseWaiting(topic, Refusal(.unavailable, "The topic '\(topic.name)' was not in use; subscribe again."))
        topics.removeName(of: topic)
        topic.publishers.numbers?.removeAll()
        removeIfUnused(topic)
    }

    /// The topics that the store has from an earlier run.
    func restore(_ earlier: [StoredTopic]) {
        for each in earlier {
            let topic = topics.restore(each, by: self)
            topic.publishers.restore(each, now: moment)
            topic.searchOld(now: moment)
            if each.mayHaveLost { topic.keep() }
            topic.markDirty()
            timers.schedule(topic, now: moment.monotonic)
        }
    }

    func stored(_ reports: [StoreReport], now: Instant) {
        for report in reports {
            switch report {
            case .committed(let topic, let attempt, let end):
                topics[epoch: topic]?.commit(attempt, upTo: end, now: now)
            case .ended(let topic): topics[epoch: topic]?.commitEnd(now: now)
            case .refused(let topic, let attempt, let failure):
                topics[epoch: topic]?.refuseUncommitted(attempt, failure, now: now)
            case .endRefused(let topic, let failure): topics[epoch: topic]?.refuseEnd(failure, now: now)
            }
        }
    }

    func requestAgeSearches(now: Instant) {
        while let search = ageSearches.next({ $0.ageSearch(now: now) }) { effects.store.append(.search(search)) }
    }

    func removeIfUnused(_ topic: Topic) {
        guard topics.removeIfUnused(topic) else { return }
        timers.topics.cancel(topic)
        if let shared = topic.shared {
            followers.goOn(with: topic)
            effects.upstream.append(.leave(shared.use, at: shared.isCurrent ? topic.log.end : nil))
        }
        topic.releaseUnwritten()
        if let stored = topic.window.stored, stored.isKept { effects.store.append(.purge(stored.id)) }
    }
}
