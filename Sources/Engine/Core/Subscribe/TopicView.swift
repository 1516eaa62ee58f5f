// TopicView: one shard's view of a topic, with the subscriptions of that shard. It handles cursors, credit and overflow
// using chunks shared with the topic's owner, so a message is sent to a shard once, however many subscribers are there.
// On the owner's own shard the view uses the topic's log itself.
//
// What the owner must know of all subscriptions (the oldest message that one waits for, and how far `block`
// subscriptions let publishers append) is updated with each change of a single one. Only delivery of new messages
// visits all subscriptions, and it does so in slices.

import Replay

final class TopicView {
    let name: String
    let owner: Int
    /// The metadata entry with the name.
    private(set) lazy var topicEntry = MessageMetadata.topicEntry(name)
    /// Unknown until the owner has answered.
    var epoch: UInt64 = 0
    let log: Log
    /// Whether the log is the owner's, which appends and evicts.
    let sharesLog: Bool
    /// Where the messages are that the log does not hold; nil for a topic in memory.
    var store: StoreReference?
    var isStored: Bool { store != nil }
    var reads = HistoryReads()
    var isAttached = false
    var state = TopicState.live
    var retained = SequenceNumber(1)
    /// Subscriptions, and cursors of subscriptions to patterns.
    private(set) var members: [Subscriber] = []
    /// What all members together need.
    private let needs = ViewNeeds()
    /// Subscribers that wait for the view to be attached, for the store to find their first message, or for a shared
    /// topic to reach their position on this node.
    private(set) var waiting: [Subscriber] = []
    /// The lowest position that subscribers wait for, or a lower one; nil if none waits for a position.
    var awaited: SequenceNumber?
    /// Subscriptions to patterns that match and have no cursor here have followed the topic up to this position, which
    /// is the end. Nil if all of them have cursors.
    var followed: SequenceNumber?
    /// Messages from here on are kept for such subscriptions, to which cursors are being given.
    var joining: SequenceNumber?
    /// Members that are cursors of subscriptions to patterns.
    private var matches = 0
    var hasMatches: Bool { matches > 0 }
    /// Its place in the queue for the removal of such cursors, and when its log last advanced.
    var activity: TurnQueue<(view: TopicView, since: UInt64)>.Ticket?
    private(set) var advancedAt: UInt64 = 0
    /// Whether all members know of all messages.
    var isAtRest: Bool { joining == nil && !round.isUnderWay }
    var lost = SequenceNumber(1)
    /// Messages lost between the last one and the topic's end.
    var lostAtEnd = 0
    /// Bytes that the topic's log may hold, and the generation of settings from which that was computed.
    private var limit: (bytes: Int, generation: Int)
    var byteLimit: Int {
        let generation = views.context.settingsGeneration
        if limit.generation != generation { limit = (views.limits.retention(of: name).bytes, generation) }
        return limit.bytes
    }
    /// The charge of a recent message, in bytes.
    var typical = 0

    /// The progress to report to the owner on another shard.
    private var pending: ViewProgress?
    /// Messages that subscriptions here have lost, and have received, since the view was created.
    var dropped = DropCounts()
    var delivered: UInt64 = 0
    /// The round that advances members to the log's end.
    private var round: AdvanceRound
    var isDirty = false
    /// Whether the view is queued to continue its round.
    var isInLine = false
    /// Whether the view's counts have changed since the last tick.
    var isTouched = false
    /// The messages encoded for HTTP subscribers.
    var entries = EntryCaches()
    /// The view's index among those with messages in other forms; -1 if it has none.
    var formsPlace = -1

    /// All views of the shard.
    let views: ViewTable

    /// - Parameters:
    ///   - log: the owner's log, if this shard is the owner.
    ///   - end: the end of its committed messages.
    init(name: String, owner: Int, views: ViewTable, log: Log? = nil, end: SequenceNumber = .first) {
        self.name = name
        self.owner = owner
        self.views = views
        self.log = log ?? Log()
        sharesLog = log != nil
        limit = (views.limits.retention(of: name).bytes, views.context.settingsGeneration)
        round = AdvanceRound(end: end)
    }

    var isEmpty: Bool { members.isEmpty && waiting.isEmpty && joining == nil }
    /// An epoch that the topic had before; nil if it is unknown.
    func formerEpoch(_ epoch: UInt64) -> FormerEpoch? { store?.former.last { $0.epoch == epoch } }
    /// The end of the log as known to the view.
    var end: SequenceNumber { round.target }

    // Joining and leaving

    /// Attaches the view to the topic's log, which the owner has sent. Returns the subscribers that waited for the log,
    /// in order of arrival.
    func attach(_ snapshot: TopicSnapshot) -> [Subscriber] {
        log.begin(snapshot)
        round = AdvanceRound(end: log.end)
        isAttached = true
        defer { waiting = [] }
        return waiting
    }

    /// Attaches the owner's own view. Returns the subscribers that waited for the topic, in order of arrival.
    func attach(end: SequenceNumber) -> [Subscriber] {
        round = AdvanceRound(end: end)
        isAttached = true
        defer { waiting = [] }
        return waiting
    }

    /// Makes a subscriber wait until the owner has answered.
    func addWaiting(_ subscriber: Subscriber) {
        subscriber.member = waiting.count
        waiting.append(subscriber)
    }

    /// The subscribers that waited for the topic, which the owner has refused.
    func refused() -> [Subscriber] { waiting }

    func add(_ subscriber: Subscriber) {
        let needed = subscriber.cursor.cursor
        round.added(to: members.count)
        subscriber.member = members.count
        members.append(subscriber)
        if subscriber.match != nil { matches += 1 }
        needs.add(subscriber)
        // The owner must know of the new member before it evicts the head of a shared log.
        if sharesLog, needs.hold(needed) {
            views.topics[epoch: epoch]?.hold(needed, for: views.index)
        }
        // Publishes later in the same read must not use room that this member does not leave.
        if sharesLog, subscriber.cursor.overflow == .block, let progress = progress() {
            views.topics[epoch: epoch]?.heard(progress, from: views.index, now: views.moment)
        }
        markDirty()
    }

    /// A subscriber does not wait any longer.
    func removeWaiting(_ subscriber: Subscriber) {
        // It may have been refused just before it joined.
        guard subscriber.isWaiting else { return }
        if let ticket = subscriber.search { views.searches.withdraw(ticket) }
        subscriber.search = nil
        let last = waiting.removeLast()
        if last !== subscriber {
            waiting[subscriber.member] = last
            last.member = subscriber.member
        }
    }

    func remove(_ subscriber: Subscriber) {
        guard subscriber.hasJoined else { return removeWaiting(subscriber) }
        let last = members.removeLast()
        if last !== subscriber {
            members[subscriber.member] = last
            last.member = subscriber.member
        }
        needs.remove(subscriber)
        if subscriber.match != nil { matches -= 1 }
        if subscriber.isBlocker { views.timers.blockers.cancel(subscriber) }
        if round.removed(subscriber.member, of: members.count + 1) { round.later.append(last) }
        markDirty()
    }

    /// Queues progress for the owner on another shard. It replaces progress that has not been sent yet.
    func report(_ progress: ViewProgress) {
        if pending == nil { views.reports.add(self) }
        pending = progress
    }

    /// The progress to send to the owner; nil if the view is empty or has made none.
    func takeReport() -> ViewProgress? {
        defer { pending = nil }
        return isEmpty ? nil : pending
    }

    /// Releases the messages of a view that no subscription uses any longer.
    func release() {
        // The waiting reads reference the view.
        reads = HistoryReads()
        if !sharesLog { log.removeAll() }
        removeRuns()
    }

    /// Notes that messages in other forms have been made for this view.
    @inline(__always)
    func noteRuns() {
        guard formsPlace < 0 else { return }
        views.relief.add(self)
    }

    /// Removes the messages in other forms that no connection references, since they can be encoded again. Returns
    /// whether any are left.
    func removeUnusedRuns() -> Bool {
        entries.removeUnused()
        if entries.memory == 0 { removeRuns() }
        return entries.memory > 0
    }

    /// Releases all messages in other forms. Connections that are sending one keep it.
    func removeRuns() {
        entries.removeAll()
        guard formsPlace >= 0 else { return }
        views.relief.remove(self)
    }

    // Advancing

    /// Members that receive new messages before other work has its turn.
    static let slice = 2048

    /// Adopts a change of the log: the owner has appended, ended the topic, or evicted its head. Messages are delivered
    /// while credit and room allow.
    func advance(_ advance: LogAdvance, now: Instant) {
        if matches > 0 { advancedAt = now.monotonic }
        if advance.lost > lost {
            finishRound(before: advance.lost, now: now)
            lost = advance.lost
            let places = needs.members(below: lost.value)
            for place in places { members[place].cursor.evict(before: lost) }
            views.work.spent += places.count / Work.membersPerUnit
        }
        retained = advance.retained
        typical = advance.typical
        let isEndNew = state.isLive && advance.state.isEnd
        state = advance.state
        lostAtEnd = advance.lostAtEnd
        if advance.isDeleted { views.removeName(of: self) }
        if !sharesLog {
            log.advance(to: advance.end, charged: advance.charged, fresh: advance.fresh, holes: advance.holes)
            if isStored { log.evict(before: advance.resident) }
        }
        round.begin(upTo: advance.end, count: members.count)
        if let followed, followed < advance.end || isEndNew { views.patterns.joinAll(self, from: followed, now: now) }
        goOn(most: views.slice, now: now)
    }

    /// Advances up to `most` members to the end. If any remain, the shard continues later.
    func goOn(most: Int, now: Instant) {
        var visited = 0
        let isOver = !state.isLive
        while visited < most, let subscriber = nextInRound() {
            visited += 1
            subscriber.cursor.appended(upTo: round.target)
            // Messages that the subscriber did not know of yet may already be gone.
            if lost > round.completed { subscriber.cursor.evict(before: lost) }
            if isOver { notifyOfEnd(to: subscriber, lost: lostAtEnd) }
            views.delivery.deliver(subscriber, now: now)
        }
        round.pause()
        if round.isUnderWay { views.work.advanceLater(self) }
        markDirty()
        views.work.spent += visited / Work.membersPerUnit
    }

    @inline(__always)
    private func nextInRound() -> Subscriber? {
        while let moved = round.later.popLast() { if moved.isMember { return moved } }
        return round.next(of: members.count).map { members[$0] }
    }

    /// Handles the eviction of messages before `sequence` for lack of space.
    func lose(before sequence: SequenceNumber, now: Instant) {
        finishRound(before: sequence, now: now)
        lost = Swift.max(lost, sequence)
        // Subscriptions that end here are removed from `members`, and the last one moves to their index.
        let losers = needs.members(below: sequence.value).map { members[$0] }
        for subscriber in losers {
            subscriber.cursor.evict(before: sequence)
            views.delivery.deliver(subscriber, now: now)
        }
        views.work.spent += losers.count / Work.membersPerUnit
        markDirty()
    }

    /// Lets members advance before messages before `sequence` are evicted, because some members may not know of these
    /// yet.
    private func finishRound(before sequence: SequenceNumber, now: Instant) {
        if round.isUnderWay, sequence > round.completed { goOn(most: .max, now: now) }
    }

    /// Notifies a new subscriber of the end, if the topic has ended. What was lost after the last message concerns only
    /// one that resumes.
    func notifyOfEnd(to subscriber: Subscriber) {
        let isResumed = if case .from = subscriber.options.start { true } else { false }
        notifyOfEnd(to: subscriber, lost: isResumed ? lostAtEnd : 0)
    }

    private func notifyOfEnd(to subscriber: Subscriber, lost: Int) {
        switch state {
        case .live: break
        case .completed: subscriber.cursor.topicEnded(.completed, at: log.end, lost: UInt64(lost))
        case .failed: subscriber.cursor.topicEnded(.failed, at: log.end, lost: UInt64(lost))
        case .left:
            subscriber.cursor.topicEnded(.failed, at: log.end, lost: UInt64(lost))
            // The topic may be followed again, with the same epoch and another view. Nothing may wait here then.
            if subscriber.match != nil { subscriber.cursor.evict(before: log.end) }
        }
    }

    // Progress

    func markDirty() { views.markDirty(self) }

    /// Updates the view after a delivery to a subscription.
    /// - Parameter oldest: the oldest message that waits for it, or `MinimumTree.none`.
    @inline(__always)
    func noteMove(of subscriber: Subscriber, oldest: UInt64) {
        views.timers.touch(self)
        if subscriber.isInStep, oldest == MinimumTree.none, subscriber.fullness == nil { return }
        if needs.note(subscriber, oldest: oldest) { markDirty() }
        guard subscriber.isBlocker else { return }
        if subscriber.cursor.waiting > 0 || subscriber.fullness != nil { views.delivery.noteWaiting(subscriber) }
        if needs.note(blocker: subscriber, target: round.target) { markDirty() }
    }

    /// The progress to report to the owner; nil if nothing has changed since the last report. A view of another shard's
    /// topic also releases what neither waiting nor future subscriptions here need.
    func progress() -> ViewProgress? {
        isDirty = false
        // A topic must not become idle while subscribers wait for a position that it has not reached here.
        let count = members.count - matches + (awaited == nil ? 0 : waiting.count)
        var now = needs.progress(seen: round.completed, subscriptions: count, dropped: dropped, delivered: delivered)
        if let joining { now.needed = Swift.min(now.needed, joining) }
        if !sharesLog {
            log.evict(before: Swift.max(Swift.min(retained, now.needed), lost))
            log.releaseLastChunk()
        }
        log.evictHistory(before: now.needed)
        entries.evict(before: log.oldestHeld)
        return needs.record(now) ? now : nil
    }
}
