// Topic: the owner's part of a topic. It takes messages into the log, gives up what nobody needs, and sends every shard
// with subscriptions how the log moved on. `RetainedWindow` keeps account of the messages, `TopicPublishers` of those
// that publish, `TopicViews` of the shards with subscriptions.
//
//     live ──COMPLETE / complete──▶ completed ─┐
//       ├────ERROR / fail─────────▶ failed ────┼─ idle ─▶ removed
//       └────delete──▶ failed("deleted"), gone from the names at once

import ForebayWire
import Replay

final class Topic: Timed {
    let name: String
    let epoch: UInt64
    /// Where its shard lists it.
    let place: Handle
    /// Where its shard goes over those that may give up memory; nil once it has forgotten it.
    var held: Handle?
    /// The user who was the first to use it.
    var account: Account?
    private(set) var state: TopicState = .live
    private(set) var isDeleted = false
    let log = Log()
    private(set) var window: RetainedWindow
    private(set) var views = TopicViews()
    let publishers: TopicPublishers
    private(set) var usage: TopicUsage
    /// The input at work touched it.
    var isDirty = false
    var timerPlace = -1
    /// How busy it is, and its place among the busiest of its shard; -1 if it is none of them.
    private(set) var activity: Activity
    var busyPlace = -1
    /// Publishes to it that came to nothing, on whichever shard.
    var losses = TopicLosses()
    /// The owner of all topics of the shard.
    let ownership: TopicOwnership

    init(name: String, epoch: UInt64, place: Handle, ownership: TopicOwnership, now: UInt64) {
        self.name = name
        self.epoch = epoch
        self.place = place
        self.ownership = ownership
        activity = Activity(madeAt: now)
        usage = TopicUsage(madeAt: now)
        window = RetainedWindow(
            log, ownership.limits.retention(of: name), isStored: ownership.limits.isStored(name))
        publishers = TopicPublishers(ownership, window)
        publishers.topic = self
        if window.stored != nil { updateRoom() }
    }

    // What the window says

    var committed: SequenceNumber { window.committed }
    var retained: SequenceNumber { window.retained }
    var isStored: Bool { window.stored != nil }
    var published: UInt64 { log.end.value - 1 }
    /// The topic has ended, and subscribers may be told: all its messages are committed.
    var isOver: Bool { !state.isLive && window.isCommitted }
    /// As subscribers may be told.
    var visibleState: TopicState { isOver ? state : .live }

    // Taking messages

    /// Why a message of these sizes is not taken at all; nil if it is.
    @inline(__always)
    func refusal(charge: Int) -> Refusal? {
        let isTaken = state.isLive && charge <= window.retention.bytes && !ownership.memory.isFull
        return isTaken ? nil : reasonToRefuse(charge: charge)
    }

    private func reasonToRefuse(charge: Int) -> Refusal? {
        switch state {
        case .live: break
        case .completed: return Refusal(.ended, "The topic '\(name)' has completed; it takes no more messages.")
        case .failed(let reason):
            return Refusal(.ended, "The topic '\(name)' has failed (\(reason)); it takes no more messages.")
        }
        let limit = window.retention.bytes
        if charge > limit {
            return Refusal(
                .tooLarge, "The message takes \(charge) bytes of the topic's log, which holds \(limit); send less.")
        }
        return ownership.relief.refusal(for: self)
    }

    func append(
        metadata: UnsafeRawBufferPointer?, payload: UnsafeRawBufferPointer, now: Instant
    ) -> SequenceNumber {
        assert(state.isLive)
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

    private func noteMessages(_ count: Int, now: Instant) {
        publishers.noteAppended(count)
        ownership.counters.published += UInt64(count)
        usage.noteMessages(now: now.monotonic)
        markDirty()
    }

    /// Publishers wait until their messages are committed. False: they are committed as they are appended.
    @inline(__always)
    func awaitCommit(_ note: (inout CommitLine) -> Void) -> Bool {
        guard window.commits != nil else { return false }
        note(&window.commits!)
        return true
    }

    /// The store has the messages before `end`.
    func commit(upTo end: SequenceNumber, now: Instant) {
        guard window.commits?.commit(upTo: end) == true, let waiting = window.commits?.takeCommitted() else { return }
        publishers.committed(waiting, now: now)
        updateRoom()
        markDirty()
        noteUse(now)
        guard isOver else { return }
        if let refusal = refusal(charge: 0) { publishers.refuse(refusal) }
        ownership.forgetIfUnused(self)
    }

    func markDirty() { ownership.topics.markDirty(self) }

    func noteUse(_ now: Instant) {
        usage.noteUse(now: now.monotonic)
        noteIdleness(now)
    }

    private func noteIdleness(_ now: Instant) {
        usage.noteIdle(publishers.isEmpty && views.subscriptions == 0 && window.isCommitted, now: now.monotonic)
    }

    // Its end

    /// The topic's end; the first one wins. Other publishers are rejected.
    func finish(_ end: TopicState, now: Instant) {
        guard state.isLive else { return }
        shut(end, now: now)
        ownership.events.event("topic-" + end.name, topic: name, epoch: epoch)
    }

    /// A topic that has ended already fails now all the same for those who have not been told the end.
    func delete(now: Instant) {
        views.forgetEnds()
        isDeleted = true
        window.forget(before: log.end)
        shut(.failed("deleted"), now: now)
    }

    private func shut(_ end: TopicState, now: Instant) {
        assert(!end.isLive)
        state = end
        advanceViews(now: now)
        if isOver, let refusal = refusal(charge: 0) { publishers.refuse(refusal) }
        noteUse(now)
    }

    // In each turn, and with time

    /// What it does once per batch of inputs, when messages came or room was made: views advance, the head of the log
    /// goes, publishers have their share of the room, and what is new goes to the store.
    func settle(now: Instant) {
        window.noteAge(now: now.monotonic)
        advanceViews(now: now)
        publishers.settle(now: now)
        if let new = window.commits?.takeNew(of: log, epoch: epoch) { ownership.effects.store.append(.append(new)) }
        noteIdleness(now)
        if activity.note(published: published, now: now.monotonic), !isDeleted { ownership.topics.noteBusier(self) }
        ownership.timers.schedule(self, now: now.monotonic)
    }

    /// What changes with time alone: reservations end, parked publishes give up, messages grow old. Returns how many
    /// channels and publishes it looked at, at most `most`: where it is as many, others may be due.
    func tick(most: Int, now: Instant) -> Int {
        let visited = publishers.tick(most: most, now: now)
        if window.forgetOld(now: now.monotonic) { releaseForgotten(now: now) }
        noteIdleness(now)
        return visited
    }

    /// When `tick` has something to do, on the monotonic clock; `UInt64.max` if never.
    func deadline(now: UInt64) -> UInt64 {
        let due = Swift.min(publishers.deadline(now: now), window.ageDeadline(now: now) ?? .max)
        guard let idleSince = usage.idleSince, !TopicName.isSystem(name) else { return due }
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

    /// Views that were linked to this topic report how far they are.
    func heard(_ progress: ViewProgress, from shard: Int, now: Instant) {
        guard views.note(progress, of: shard) else { return }
        updateRoom()
        markDirty()
        noteUse(now)
    }

    /// A view has a newcomer that needs older messages than all others.
    func hold(_ needed: SequenceNumber, for shard: Int) { views.hold(needed, for: shard) }

    /// Advances the views to what was appended, then gives up what nobody needs and what does not fit.
    private func advanceViews(now: Instant) {
        for index in views.links.indices {
            let link = views.links[index]
            let isFar = link.told > link.progress.seen && log.bytes(from: link.progress.seen) > ViewLink.ahead
            guard link.told < committed || (!link.isEnded && isOver), !isFar else { continue }
            advanceView(at: index, now: now)
        }
        evict(now: now)
    }

    /// Advances the view on this shard to what was appended; false if it knows of that already.
    func advanceOwnView(now: Instant) -> Bool {
        guard let index = views.laggingIndex(of: ownership.index, end: committed) else { return false }
        advanceView(at: index, now: now)
        return true
    }

    private func advanceView(at index: Int, now: Instant) {
        let end = committed
        let link = views.advance(at: index, to: end, isEnded: isOver)
        // A view on this shard reads the log itself.
        let isOwn = link.shard == ownership.index
        let fresh = isOwn ? [] : log.pieces(from: Swift.max(link.told, log.head), upTo: end)
        ownership.tellView(
            link.shard, topic: self,
            advance: LogAdvance(
                end: end, charged: log.charged(before: end), fresh: fresh, retained: retained, lost: window.lost,
                resident: log.head, typical: publishers.room.typical, state: visibleState,
                isDeleted: isDeleted && isOver),
            now: now)
    }

    /// Views on other shards hold chunks too. Those that are yet to be told of messages hear of it then.
    private func advanceOtherViews(now: Instant) {
        for index in views.links.indices {
            let link = views.links[index]
            if link.shard != ownership.index, link.told == committed { advanceView(at: index, now: now) }
        }
    }

    /// What publishers have to leave room for: `block` subscriptions, and a store that has not committed everything.
    private func updateRoom() {
        var floor = window.commits?.committed
        var horizon = floor?.advanced(by: ownership.limits.uncommitted)
        for link in views.links {
            if let its = link.progress.horizon { horizon = Swift.min(horizon ?? its, its) }
            if let its = link.progress.floor { floor = Swift.min(floor ?? its, its) }
        }
        publishers.room.update(horizon: horizon, floor: floor, log: log)
    }

    // Giving up messages

    /// The head moves to the oldest message that is retained or that someone waits for, and on until the bytes fit.
    /// What a `block` subscription waits for and came after it joined is not given up.
    private func evict(now: Instant) {
        evictUnneeded()
        let within = window.firstWithinLimit
        if isStored { unload(to: ownership.limits.resident) }
        lose(before: Swift.min(within, publishers.room.floor ?? within), now: now)
    }

    private func evictUnneeded() {
        let needed = views.needed(atMost: retained)
        if isStored { trim(before: needed) } else { log.evict(before: needed) }
    }

    /// Gives up the head of the log, whoever waits for it.
    private func lose(before sequence: SequenceNumber, to limit: LimitReached = .retainBytes, now: Instant) {
        guard sequence > window.oldest else { return }
        window.lose(before: sequence, memory: limit == .memory ? ownership.memory.used : nil)
        ownership.reached(limit)
        trim(before: sequence)
        ownership.tellOwnView(topic: self, lostBefore: sequence, now: now)
        // At once, or a shard would go on holding what is gone until the next message; one that lags hears it then.
        advanceOtherViews(now: now)
    }

    /// The store need not keep messages before `sequence`.
    private func trim(before sequence: SequenceNumber) {
        guard window.stored?.trim(before: sequence) == true else { return }
        log.evict(before: sequence)
        ownership.effects.store.append(.trim(topic: epoch, before: sequence))
    }

    /// Messages leave memory but for the newest `most` bytes of it, what is not committed, and what `block`
    /// subscriptions wait for.
    private func unload(to most: Int) {
        guard let floor = publishers.room.floor else { return }
        window.stored?.evict(log, before: Swift.min(log.firstWithin(memory: most), floor))
    }

    /// As `unload`, here and on other shards: memory is short.
    private func giveBack(to most: Int, now: Instant) {
        let before = log.head
        unload(to: most)
        if log.head > before { advanceOtherViews(now: now) }
    }

    /// Messages that nobody waits for have been forgotten.
    private func releaseForgotten(now: Instant) {
        evictUnneeded()
        log.releaseLastChunk()
        advanceOtherViews(now: now)
    }

    /// History that nobody waits for goes: memory is short.
    func relieve(now: Instant) {
        if isStored { return giveBack(to: 0, now: now) }
        guard window.forget(before: committed) || log.memory > 0 else { return }
        releaseForgotten(now: now)
    }

    /// Bytes that cannot be given up for new messages.
    var unsheddable: Int { (publishers.room.held(log) ?? 0) + publishers.parked.memory }

    /// Loses its oldest messages until its log, with the chunk that it begins next, takes at most `share` bytes of
    /// memory, whoever waits for them, unless a `block` subscription does.
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

    /// Takes on what the settings say of it now. What is too much then goes at once, and is lost where someone waited
    /// for it.
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

/// When a topic was used, on the monotonic clock.
struct TopicUsage {
    let madeAt: UInt64
    /// When a message came or a subscription moved on.
    private(set) var lastUsed: UInt64
    /// When it was last without publisher and subscriber; nil while it has one.
    private(set) var idleSince: UInt64?

    init(madeAt now: UInt64) {
        madeAt = now
        lastUsed = now
        idleSince = now
    }

    mutating func noteMessages(now: UInt64) {
        lastUsed = now
        if idleSince != nil { idleSince = now }
    }

    mutating func noteUse(now: UInt64) { lastUsed = now }
    mutating func noteIdle(_ isIdle: Bool, now: UInt64) { idleSince = isIdle ? idleSince ?? now : nil }
    mutating func noteSubscription() { idleSince = nil }
}
