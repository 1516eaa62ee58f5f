// Topic: the owner's part of a topic. It appends messages to the log, evicts what is not needed, and advances the view
// of every shard with subscriptions. `RetainedWindow` accounts for the messages, `TopicPublishers` for the publishers,
// `TopicViews` for the shards with subscriptions.
//
//     live ──COMPLETE / complete──▶ completed ─┐
//       ├────ERROR / fail─────────▶ failed ────┼─ idle ─▶ removed
//       └────delete──▶ failed("deleted"), its name is free at once

import ForebayWire
import Replay

final class Topic: Timed {
    let name: String
    /// That of a shared topic is provisional until the topic has been joined.
    var epoch: UInt64
    /// Its handle in the shard's list of named topics.
    let place: Handle
    /// Its handle in the shard's list for sweeps and memory relief; nil once it has been removed.
    var held: Handle?
    /// The user that was the first to use it.
    var account: Account?
    private(set) var state: TopicState = .live
    private(set) var isDeleted = false
    let log: Log
    var window: RetainedWindow
    private(set) var views = TopicViews()
    let publishers: TopicPublishers
    private(set) var usage: TopicUsage
    /// Whether the current input has touched this topic.
    var isDirty = false
    var timerPlace = -1
    /// How busy it is, and its index among the busiest topics of its shard; -1 if it is not one of them.
    private(set) var activity: Activity
    var busyPlace = -1
    /// Nil unless its messages are in JetStream.
    let shared: SharedLog?
    /// Whether its messages are only in memory.
    private let isPlain: Bool
    /// Failed publishes to it, on all shards.
    var losses = Rare<TopicLosses>()
    /// The owner of all topics of the shard.
    let ownership: TopicOwnership

    /// - Parameter earlier: what the store has of it from an earlier run.
    init(
        name: String, epoch: UInt64, place: Handle, ownership: TopicOwnership, earlier: StoredTopic? = nil, now: UInt64
    ) {
        self.name = name
        self.epoch = epoch
        self.place = place
        self.ownership = ownership
        log =
            earlier.map {
                Log(end: $0.messages.upper, charged: $0.charged.upperBound, latest: $0.lastTimestamp)
            } ?? Log()
        activity = Activity(madeAt: now)
        usage = TopicUsage(madeAt: now)
        shared =
            earlier == nil && ownership.limits.isShared(name)
            ? SharedLog(TopicUse(topic: name, number: ownership.nextTicket())) : nil
        let stored = earlier.map(StoredLog.init) ?? StoredLog(ownership.limits.storage(of: name), epoch: epoch)
        window = RetainedWindow(log, ownership.limits.retention(of: name), stored)
        isPlain = shared == nil && window.stored == nil
        publishers = TopicPublishers(ownership, window)
        publishers.topic = self
        if window.stored != nil { updateRoom() }
        switch earlier?.row.end {
        case nil: return
        case .completed: state = .completed
        case .failed(let reason): state = .failed(reason)
        }
        window.commits?.restoreEnd()
    }

    // Derived from the window

    var committed: SequenceNumber { window.committed }
    var retained: SequenceNumber { window.retained }
    var isStored: Bool { window.stored != nil }
    /// Messages so far, including sequences without one.
    var published: UInt64 { log.end.value - 1 }
    /// Whether the topic has ended, and its messages and its end are committed. Subscribers may then learn of the end.
    var isOver: Bool { !state.isLive && window.isCommitted && window.isEndCommitted }
    /// Whether the topic need not wait for the store any longer.
    var isStoreDone: Bool {
        guard let commits = window.commits else { return true }
        // Nobody waits for the messages of a deleted relaxed topic to be written.
        let needsMessages = window.awaitsStore || window.stored?.isDeletionRequested != true
        return (commits.written == log.end || !needsMessages) && (state.isLive || commits.isEndWritten)
    }
    /// The state visible to subscribers.
    var visibleState: TopicState { isOver ? state : .live }

    // Accepting messages

    /// Why a message with this charge is refused; nil if it is acceptable.
    @inline(__always)
    func refusal(charge: Int) -> Refusal? {
        let isTaken =
            state.isLive && charge <= window.retention.bytes && !ownership.memory.isFull
            && (isPlain || outerRefusal == nil)
        return isTaken ? nil : reasonToRefuse(charge: charge)
    }

    /// Returns the message's sequence; for a shared topic, the ticket that takes its place.
    /// - Parameters:
    ///   - channel: the channel of the message, if it came on one.
    ///   - numbered: for shared topics, the message's number, if it did not come on a channel.
    func append(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, of channel: Channel? = nil,
        numbered: NumberedPublish? = nil, now: Instant
    ) -> SequenceNumber {
        assert(state.isLive)
        if let shared { return submit(shared, metadata: metadata, payload: payload, of: channel, numbered) }
        let sequence = log.append(metadata: metadata, payload: payload, timestamp: now.wall, budget: ownership.memory)
        noteMessages(1, now: now)
        return sequence
    }

    /// Returns the sequence of the last message.
    func append(_ run: FramedRun, now: Instant) -> SequenceNumber {
        assert(state.isLive)
        log.append(run, timestamp: now.wall, budget: ownership.memory)
        noteMessages(run.count, now: now)
        return log.end.advanced(by: -1)
    }

    func noteMessages(_ count: Int, now: Instant) {
        publishers.noteAppended(count)
        ownership.counters.published += UInt64(count)
        usage.noteMessages(now: now.monotonic)
        markDirty()
    }

    func markDirty() { ownership.topics.markDirty(self) }

    func noteUse(_ now: Instant) {
        usage.noteUse(now: now.monotonic)
        noteIdleness(now)
    }

    func noteIdleness(_ now: Instant) {
        let isUsed =
            !publishers.isEmpty || !views.isEmpty || !isStoreDone || shared?.isAwaited == true
            || views.hasQueued
        usage.noteIdle(!isUsed, now: now.monotonic)
    }

    // The end

    /// Ends the topic; the first end counts. Other publishers are rejected.
    func finish(_ end: TopicState, now: Instant) {
        guard state.isLive else { return }
        if isShared { return requestEnd(SharedEnd(end), now: now) }
        self.end(as: end, now: now)
    }

    func end(as end: TopicState, now: Instant) {
        shut(end, now: now)
        ownership.events.event("topic-" + end.name, topic: name, epoch: epoch)
    }

    /// Even if the topic has already ended, it now fails for views that have not been notified of that end.
    func delete(as end: TopicState = .failed("deleted"), now: Instant) {
        linkFollowers(isLast: true, now: now)
        views.resendEnds()
        isDeleted = true
        window.discard(before: log.end)
        shut(end, now: now)
    }

    private func shut(_ end: TopicState, now: Instant) {
        assert(!end.isLive)
        state = end
        storeEnd()
        advanceViews(now: now)
        if isOver, let refusal = refusal(charge: 0) { publishers.refuse(refusal) }
        noteUse(now)
    }

    // In each turn, and on time

    /// Called once per batch of inputs after messages were appended or room was freed: advances views, evicts the head
    /// of the log, gives publishers their share of the room, and passes new messages to the store.
    func maintain(now: Instant) {
        window.noteAge(now: now.monotonic)
        advanceViews(now: now)
        publishers.maintain(now: now)
        storeNew()
        noteIdleness(now)
        if activity.note(published: published, now: now.monotonic), !isDeleted { ownership.topics.noteBusier(self) }
        ownership.timers.schedule(self, now: now.monotonic)
    }

    /// Time-driven changes: reservations end, parked publishes give up, messages become too old. Returns how many
    /// channels and publishers it visited, at most `most`: if it is `most`, others may be due.
    func tick(most: Int, now: Instant) -> Int {
        let visited = publishers.tick(most: most, now: now)
        if window.removeOld(now: now.monotonic) { releaseForgotten(now: now) }
        searchOld(now: now)
        if awaitsStoreTick {
            repeatEnd()
            updateUnwritten()
            markDirty()
        }
        noteIdleness(now)
        return visited
    }

    /// When `tick` has something to do, on the monotonic clock; `UInt64.max` if never.
    func deadline(now: UInt64) -> UInt64 {
        if awaitsStoreTick { return now + Timers.interval }
        let due = Swift.min(publishers.deadline(now: now), window.ageDeadline(now: now) ?? .max)
        guard let idleSince = usage.idleSince, !TopicName.isSystem(name), !isUnloaded else { return due }
        return Swift.min(due, idleSince.addingClamped(ownership.limits.topicIdle))
    }

    // Views

    func link(_ shard: Int) {
        views.link(shard, seen: committed, needed: window.oldest, isEnded: isOver)
        usage.noteSubscription()
    }

    func unlink(_ shard: Int, _ past: ViewTotals, now: Instant) {
        guard views.unlink(shard, past) else { return }
        updateRoom()
        markDirty()
        noteUse(now)
    }

    /// A shard has subscriptions to patterns, which follow the topic from `first` on.
    func follow(_ shard: Int, from first: SequenceNumber) {
        views.follow(shard, from: first, isOver: visibleState.isEnd)
    }

    /// Whether the topic has ended, and a shard that follows it for subscriptions to patterns does not know that.
    func isEndNew(for shard: Int) -> Bool { visibleState.isEnd && views.isEndNew(for: shard) }

    /// Whether shards that follow the topic for subscriptions to patterns lack messages, or its end.
    var isNewToFollowers: Bool {
        isCurrent && !views.followersBehind(committed, isOver: visibleState.isEnd).isEmpty
    }

    /// A view that is linked to this topic reports its progress.
    func heard(_ progress: ViewProgress, from shard: Int, now: Instant) {
        guard views.note(progress, of: shard) else { return }
        updateRoom()
        markDirty()
        noteUse(now)
    }

    /// A view has a new member that needs older messages than all others.
    func hold(_ needed: SequenceNumber, for shard: Int) { views.hold(needed, for: shard) }

    /// Advances the views to the end, then evicts what is not needed and what exceeds the limits.
    private func advanceViews(now: Instant) {
        for index in views.links.indices {
            let link = views.links[index]
            let isFar = link.sentEnd > link.progress.seen && log.bytes(from: link.progress.seen) > ViewLink.ahead
            guard link.sentEnd < committed || (!link.isEnded && isOver), !isFar else { continue }
            advanceView(at: index, now: now)
        }
        linkFollowers(isLast: isDeleted && isOver, now: now)
        evict(now: now)
    }

    func setQueued(_ isQueued: Bool, _ shard: Int) { views.setQueued(isQueued, shard) }

    private func linkFollowers(isLast: Bool, now: Instant) {
        guard !views.followers.isEmpty, isCurrent else { return }
        ownership.followers.links.linkFollowers(of: self, isLast: isLast, now: now)
    }

    /// Advances the view on this shard to the end. Returns false if it is already there.
    func advanceOwnView(now: Instant) -> Bool {
        guard let index = views.laggingIndex(of: ownership.index, end: committed) else { return false }
        advanceView(at: index, now: now)
        return true
    }

    private func advanceView(at index: Int, now: Instant) {
        let end = committed
        let isOver = isOver
        let link = views.advance(at: index, to: end, isEnded: isOver)
        // A view on this shard reads the log itself.
        let isOwn = link.shard == ownership.index
        let first = Swift.max(link.sentEnd, log.head)
        let fresh = isOwn ? [] : log.pieces(from: first, upTo: end)
        let holes = isOwn || !log.hasHoles ? [] : log.holes.within(SequenceRange(lower: first, upper: end))
        ownership.notifyView(
            link.shard, topic: self,
            advance: LogAdvance(
                end: end, charged: log.charged(before: end), fresh: fresh, holes: holes, lostAtEnd: lostAtEnd,
                retained: retained, lost: window.lost,
                resident: log.head, typical: publishers.room.typical, state: isOver ? state : .live,
                isDeleted: isDeleted && isOver),
            now: now)
    }

    /// Advances views on other shards so that they release chunks. Views that lag will release them when they advance.
    func advanceOtherViews(now: Instant) {
        for index in views.links.indices {
            let link = views.links[index]
            if link.shard != ownership.index, link.sentEnd == committed { advanceView(at: index, now: now) }
        }
    }

    /// Updates what publishers must leave room for: `block` subscriptions, and a store that has not committed
    /// everything.
    func updateRoom() {
        var floor = window.commits?.written
        var horizon = floor?.advanced(by: ownership.limits.uncommitted)
        for link in views.links {
            if let its = link.progress.horizon { horizon = Swift.min(horizon ?? its, its) }
            if let its = link.progress.floor { floor = Swift.min(floor ?? its, its) }
        }
        publishers.room.update(
            horizon: horizon, floor: floor, chargedBeforeFloor: floor.map { window.charged(before: $0) } ?? 0)
        updateUnwritten()
    }

    // Evicting messages

    /// Moves the head to the oldest message that is retained or that a subscription waits for, and further until the
    /// log fits its byte limit. Messages that a `block` subscription waits for and that arrived after it joined are
    /// kept.
    private func evict(now: Instant) {
        evictUnneeded()
        var within = window.firstWithinLimit
        if log.hasHoles { within = Swift.max(within, log.firstWithinHoles) }
        if isStored { unload(to: ownership.limits.resident) }
        lose(before: Swift.min(within, publishers.room.floor ?? within), now: now)
    }

    private func evictUnneeded() {
        let needed = views.needed(atMost: retained)
        if isStored { trim(before: needed) } else { log.evict(before: needed) }
    }

    /// Evicts the head of the log, even if subscriptions wait for it.
    private func lose(before sequence: SequenceNumber, to limit: LimitReached = .retainBytes, now: Instant) {
        guard sequence > window.oldest else { return }
        window.lose(before: sequence, memory: limit == .memory ? ownership.memory.used : nil)
        ownership.reached(limit)
        trim(before: sequence)
        ownership.notifyOwnView(topic: self, lostBefore: sequence, now: now)
        // At once; otherwise, other shards would hold evicted messages until the next message arrives. Views that lag
        // release them when they advance.
        advanceOtherViews(now: now)
    }

    /// Releases messages that were forgotten and for which no subscription waits.
    private func releaseForgotten(now: Instant) {
        evictUnneeded()
        log.releaseLastChunk()
        advanceOtherViews(now: now)
    }

    /// Releases history for which no subscription waits, because memory is short.
    func relieve(now: Instant) {
        if isStored { return giveBack(to: 0, now: now) }
        guard window.discard(before: committed) || log.memory > 0 else { return }
        releaseForgotten(now: now)
    }

    /// Bytes that cannot be released for new messages.
    var unsheddable: Int { (publishers.room.held(log) ?? 0) + (publishers.ifAny?.parked.memory ?? 0) }

    /// Evicts the oldest messages until the log, including its next chunk, takes at most `share` bytes of memory. Only
    /// messages that `block` subscriptions wait for are spared.
    func shed(to share: Int, now: Instant) {
        let most = share - share / 4
        if isStored { return giveBack(to: most, now: now) }
        guard log.memory > most else { return }
        let within = log.firstWithin(memory: most)
        let first = Swift.min(within, publishers.room.floor ?? within)
        let waiting = Swift.max(log.head, views.needed(atMost: first))
        if waiting < first { ownership.auditLog.warn(ofShedding: first - waiting, of: name) }
        lose(before: first, to: .memory, now: now)
        log.releaseLastChunk()
        log.limitChunks(to: share / 4)
    }

    /// Adopts the current retention settings. What exceeds them is evicted at once, and lost for subscriptions that
    /// wait for it.
    func retain(now: Instant) {
        defer { markDirty() }
        let retention = ownership.limits.retention(of: name)
        if retention == window.retention { return }
        window.retain(retention, now: now)
        publishers.room.byteLimit = retention.bytes
        evict(now: now)
        advanceOtherViews(now: now)
    }
}
