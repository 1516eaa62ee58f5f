// TopicView: one shard's view of a topic, with the subscriptions of that shard. Cursors, credits and overflow are
// worked out here, over chunks that are shared with the topic's owner; so a message crosses to a shard once, however
// many subscribe there. On the owner's own shard the view is the topic's log itself.
//
// What the owner must know of all subscriptions together – the oldest message that one waits for, up to where `block`
// subscriptions let publishers go – is kept up to date with each change of a single one. Nothing here goes over all
// members but to bring them new messages, and that in slices.

import Replay

final class TopicView {
    let name: String
    let owner: Int
    /// Not known before the owner has answered.
    var epoch: UInt64 = 0
    let log: Log
    /// The log is the owner's own; the owner appends and evicts.
    let sharesLog: Bool
    /// A store has what the log does not hold.
    var isStored = false
    var reads = HistoryReads()
    var isAttached = false
    var state = TopicState.live
    var retained = SequenceNumber(1)
    private(set) var members: [Subscriber] = []
    /// What they need together.
    private let needs = ViewNeeds()
    /// Subscribers that came before the view did.
    private(set) var waiting: [Subscriber] = []
    var lost = SequenceNumber(1)
    /// Bytes that the topic's log may hold, by which settings.
    private var limit: (bytes: Int, generation: Int)
    var byteLimit: Int {
        let generation = views.context.settingsGeneration
        if limit.generation != generation { limit = (views.limits.retention(of: name).bytes, generation) }
        return limit.bytes
    }
    /// What a recent message was charged, in bytes.
    var typical = 0

    /// What another shard is still to be told.
    private var pending: ViewProgress?
    /// Messages that subscriptions here have lost, and were handed, since the view was made.
    var dropped = DropCounts()
    var delivered: UInt64 = 0
    /// Bringing members up to the log's end.
    private var round: AdvanceRound
    var isDirty = false
    /// The shard comes back to it to advance it further.
    var isInLine = false
    /// Figures have changed since the last tick.
    var isTouched = false
    /// The messages as subscribers over HTTP get them.
    var entries = EntryCaches()
    /// Its place among the views with messages in other forms; -1 while it is not among them.
    var formsPlace = -1

    /// All views of the shard.
    let views: ViewTable

    /// - Parameters:
    ///   - log: the owner's own, where it is this shard.
    ///   - end: that of its messages that are committed.
    init(name: String, owner: Int, views: ViewTable, log: Log? = nil, end: SequenceNumber = .first) {
        self.name = name
        self.owner = owner
        self.views = views
        self.log = log ?? Log()
        sharesLog = log != nil
        limit = (views.limits.retention(of: name).bytes, views.context.settingsGeneration)
        round = AdvanceRound(end: end)
    }

    var isEmpty: Bool { members.isEmpty && waiting.isEmpty }
    /// Up to where it was told that the log goes.
    var end: SequenceNumber { round.target }

    // Joining and leaving

    /// The owner has answered with the topic's log. Returns those who waited for that, in the order of their coming.
    func attach(_ snapshot: TopicSnapshot) -> [Subscriber] {
        log.begin(snapshot)
        round = AdvanceRound(end: log.end)
        isAttached = true
        defer { waiting = [] }
        return waiting
    }

    /// Has a subscriber wait until the owner has answered.
    func addWaiting(_ subscriber: Subscriber) {
        subscriber.member = waiting.count
        waiting.append(subscriber)
    }

    /// The topic is not to be had. Returns those who waited for it.
    func refused() -> [Subscriber] { waiting }

    func add(_ subscriber: Subscriber) {
        let needed = subscriber.cursor.cursor
        round.added(to: members.count)
        subscriber.member = members.count
        members.append(subscriber)
        needs.add(subscriber)
        // The head of a shared log must not go before the owner has heard of the newcomer.
        if sharesLog, needs.hold(needed) {
            views.topics[epoch: epoch]?.hold(needed, for: views.index)
        }
        // Nor may what is published behind it in the same read take room that it does not leave.
        if sharesLog, subscriber.cursor.overflow == .block, let progress = progress() {
            views.topics[epoch: epoch]?.heard(progress, from: views.index, now: views.moment)
        }
        markDirty()
    }

    func remove(_ subscriber: Subscriber) {
        guard subscriber.hasJoined else {
            // It may have been refused as it was about to join.
            guard subscriber.member < waiting.count, waiting[subscriber.member] === subscriber else { return }
            let last = waiting.removeLast()
            if last !== subscriber {
                waiting[subscriber.member] = last
                last.member = subscriber.member
            }
            return
        }
        let last = members.removeLast()
        if last !== subscriber {
            members[subscriber.member] = last
            last.member = subscriber.member
        }
        needs.remove(subscriber)
        if subscriber.isBlocker { views.timers.blockers.cancel(subscriber) }
        if round.removed(subscriber.member, of: members.count + 1) { round.later.append(last) }
        markDirty()
    }

    /// Has the owner on another shard told. What it was to be told before this is out of date.
    func report(_ progress: ViewProgress) {
        if pending == nil { views.reports.add(self) }
        pending = progress
    }

    /// What the owner is to be told; nil if that is nothing any more.
    func takeReport() -> ViewProgress? {
        defer { pending = nil }
        return isEmpty ? nil : pending
    }

    /// Nobody looks at it any more: it holds no messages.
    func release() {
        // They refer to the view.
        reads = HistoryReads()
        if !sharesLog { log.removeAll() }
        removeRuns()
    }

    /// Messages in other forms are made for it.
    @inline(__always)
    func noteRuns() {
        guard formsPlace < 0 else { return }
        views.relief.add(self)
    }

    /// Those that no connection names can be made again. Returns whether there are others.
    func removeUnusedRuns() -> Bool {
        entries.removeUnused()
        if entries.memory == 0 { removeRuns() }
        return entries.memory > 0
    }

    /// Gives up all of them. Whoever is being sent one keeps it.
    func removeRuns() {
        entries.removeAll()
        guard formsPlace >= 0 else { return }
        views.relief.remove(self)
    }

    // The log moves on

    /// Members that are brought new messages before others than this view's clients have their turn.
    static let slice = 2048

    /// The owner appended, or ended the topic, or lost its head. Messages go out as far as credit and room allow.
    func advance(_ advance: LogAdvance, now: Instant) {
        if advance.lost > lost {
            finishRound(before: advance.lost, now: now)
            lost = advance.lost
            let places = needs.members(below: lost.value)
            for place in places { members[place].cursor.evict(before: lost) }
            views.work.spent += places.count / Work.membersPerUnit
        }
        retained = advance.retained
        typical = advance.typical
        state = advance.state
        if advance.isDeleted { views.removeName(of: self) }
        if !sharesLog {
            log.advance(to: advance.end, charged: advance.charged, fresh: advance.fresh)
            if isStored { log.evict(before: advance.resident) }
        }
        round.begin(upTo: advance.end, count: members.count)
        goOn(most: views.slice, now: now)
    }

    /// Brings up to `most` members up to the end; the shard comes again where others are left.
    func goOn(most: Int, now: Instant) {
        var visited = 0
        while visited < most, let subscriber = nextInRound() {
            visited += 1
            subscriber.cursor.appended(upTo: round.target)
            // What it was not told of may be gone already.
            if lost > round.completed { subscriber.cursor.evict(before: lost) }
            tellEnd(to: subscriber)
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

    /// The head of the log goes for want of bytes.
    func lose(before sequence: SequenceNumber, now: Instant) {
        finishRound(before: sequence, now: now)
        lost = Swift.max(lost, sequence)
        // Those that end here leave the list, and another one takes their place.
        let losers = needs.members(below: sequence.value).map { members[$0] }
        for subscriber in losers {
            subscriber.cursor.evict(before: sequence)
            views.delivery.deliver(subscriber, now: now)
        }
        views.work.spent += losers.count / Work.membersPerUnit
        markDirty()
    }

    /// Messages before `sequence` go, which some members may not have been told of: first they are.
    private func finishRound(before sequence: SequenceNumber, now: Instant) {
        if round.isUnderWay, sequence > round.completed { goOn(most: .max, now: now) }
    }

    func tellEnd(to subscriber: Subscriber) {
        switch state {
        case .live: break
        case .completed: subscriber.cursor.topicEnded(.completed, at: log.end)
        case .failed: subscriber.cursor.topicEnded(.failed, at: log.end)
        }
    }

    // What the owner is told

    func markDirty() { views.markDirty(self) }

    /// A subscription has got what it gets now.
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

    /// What to tell the owner; nil when nothing has changed since. A view of another shard's topic gives up what nobody
    /// here needs: neither those who wait, nor those who may join.
    func progress() -> ViewProgress? {
        isDirty = false
        let now = needs.progress(seen: round.completed, members: members.count, dropped: dropped, delivered: delivered)
        if !sharesLog {
            log.evict(before: Swift.max(Swift.min(retained, now.needed), lost))
            log.releaseLastChunk()
        }
        log.evictHistory(before: now.needed)
        entries.evict(before: log.oldestHeld)
        return needs.tell(now) ? now : nil
    }
}
