// Topic+Store: what a topic that a store keeps does in addition: it passes messages and its end to the store, lets
// publishers wait until they are written, and releases memory that the store's copy makes unnecessary.

import Replay

extension Topic {
    /// Makes `who` wait until a message is committed. Returns false if messages are committed as they are appended.
    /// - Parameter sequence: what `append` has returned.
    @inline(__always)
    func awaitCommit(_ who: CommitLine.Waiter, at sequence: SequenceNumber) -> Bool {
        if let shared {
            shared.add(who, for: sequence)
            return true
        }
        guard window.awaitsStore else { return false }
        window.commits!.add(who, at: sequence)
        return true
    }

    /// Makes `who` wait until the topic's end is committed. Returns false if it already is, or need not be.
    func awaitEnd(_ who: CommitLine.Waiter) -> Bool {
        if let shared, shared.isEnding {
            shared.addToEnding(who)
            return true
        }
        guard !state.isLive, !window.isEndCommitted else { return false }
        return awaitCommit(who, at: log.end)
    }

    // To the store

    /// Passes new messages, and the numbers of their publishers, to the store.
    func storeNew() {
        // Messages of a deleted topic that the store has refused are not written again.
        guard let stored = window.stored, !stored.isDeletionRequested else { return }
        let new = window.commits?.takeNew(of: log, stored, epoch: epoch)
        if let new {
            // If earlier messages are on their way, the store must refuse these together with them.
            keep(again: new.first == window.commits?.written)
            ownership.effects.store.append(.append(new))
            updateUnwritten()
        }
        storeNumbers(from: new?.first ?? log.end)
    }

    /// - Parameter first: the first message that is stored with the numbers.
    private func storeNumbers(from first: SequenceNumber) {
        guard let numbers = publishers.numbers, let stored = window.stored, stored.isKept else { return }
        let changes = numbers.takeChanges(from: first, now: ownership.moment)
        if !changes.isEmpty { ownership.effects.store.append(.publishers(stored.id, changes)) }
    }

    /// Asks the store to keep the topic, unless it already does. A topic without messages is not kept. Earlier topics
    /// of that name are deleted in the same transaction: the store may refuse what it was asked before.
    func keep(again: Bool = false) {
        guard let row = window.stored?.takeRow(name: name, epoch: epoch, state.stored, again: again) else { return }
        for earlier in ownership.unwrittenDeletions[name] ?? [] where earlier !== self { earlier.requestEnd() }
        ownership.effects.store.append(.keep(row))
    }

    /// Passes the topic's end, or its deletion, to the store.
    func storeEnd() {
        guard endRequest != nil else { return }
        storeNew()
        if isDeleted, window.stored?.isKept == false {
            window.commits?.restoreEnd()
            return
        }
        if isDeleted {
            window.stored?.isDeletionRequested = true
            ownership.unwrittenDeletions[name] = (ownership.unwrittenDeletions[name] ?? []) + [self]
        } else {
            keep(again: true)
        }
        requestEnd()
    }

    private func requestEnd() {
        guard let request = endRequest else { return }
        window.commits?.requestEnd()
        ownership.effects.store.append(request)
    }

    private var endRequest: StoreRequest? {
        guard let id = window.stored?.id, let end = state.stored else { return nil }
        return isDeleted ? .delete(id, epoch: epoch) : .end(id, epoch: epoch, end)
    }

    /// Searches for messages of earlier runs that have become too old.
    /// If too many searches are in flight, the topic waits for its turn.
    func searchOld(now: Instant) {
        guard window.oldest(now: now) != nil else { return }
        window.stored?.isSearching = true
        ownership.ageSearches.append(self)
        ownership.requestAgeSearches(now: now)
    }

    /// The search for messages that have become too old; nil if there are none any more.
    func ageSearch(now: Instant) -> TimeSearch? {
        guard let id = window.stored?.id, let time = window.oldestTime(now: now) else {
            window.stored?.isSearching = false
            return nil
        }
        return TimeSearch(id: id, topic: epoch, time: time, subscriber: nil)
    }

    // From the store

    /// The first message of the store that is not too old; nil if it has none.
    func foundOld(before first: SequenceNumber?, now: Instant) {
        guard let stored = window.stored else { return }
        window.stored?.isSearching = false
        let end = Swift.min(first ?? stored.earlierEnd, stored.earlierEnd)
        guard window.discard(before: Swift.min(end, committed)) else { return }
        markDirty()
    }

    /// The store has written the messages before `end`.
    func commit(_ attempt: UInt32, upTo end: SequenceNumber, now: Instant) {
        guard attempt == window.commits?.attempt, window.commits?.commit(upTo: end) == true else { return }
        window.stored?.noteAnswer(isCommitted: true)
        progressed(now: now)
    }

    /// The store has noted the topic's end, or its deletion.
    func commitEnd(now: Instant) {
        window.commits?.noteEnd()
        window.stored?.noteAnswer(isCommitted: true)
        if isDeleted, window.commits?.isEndWritten == true {
            let others = ownership.unwrittenDeletions[name]?.filter { $0 !== self } ?? []
            ownership.unwrittenDeletions[name] = others.isEmpty ? nil : others
        }
        progressed(now: now)
    }

    private func progressed(now: Instant) {
        if let waiting = window.commits?.takeCommitted(), !waiting.isEmpty { publishers.committed(waiting, now: now) }
        updateRoom()
        markDirty()
        noteUse(now)
        guard isOver else { return }
        if let refusal = refusal(charge: 0) { publishers.refuse(refusal) }
        ownership.removeIfUnused(self)
    }

    /// The store has not written the messages that wait for it. If it is certain that none of them is on disk, they are
    /// removed from the log.
    func refuseUncommitted(_ attempt: UInt32, _ failure: StoreFailure, now: Instant) {
        guard let commits = window.commits, attempt == commits.attempt else { return }
        window.stored?.noteAnswer(isCommitted: false)
        guard window.awaitsStore else {
            // A relaxed topic's messages have been seen. They are handed to the store again later, with the numbers.
            if failure != .unknown {
                window.commits?.withdraw()
                publishers.numbers?.saveAgain()
            }
            return ownership.timers.schedule(self, now: now.monotonic)
        }
        let waiting = window.commits?.takeRefused(includingEnd: failure == .unknown) ?? []
        if failure != .unknown {
            window.withdrawUnwritten()
            // They may have been encoded ahead for subscribers.
            ownership.views[epoch: epoch]?.removeRuns()
            publishers.numbers?.rollBack(to: commits.written)
        }
        publishers.refused(waiting, Refusal.store(failure), now: now)
        updateRoom()
        markDirty()
        noteUse(now)
    }

    /// The store has not noted the topic's end. Unless the store has failed, the next tick asks it again.
    func refuseEnd(_ failure: StoreFailure, now: Instant) {
        if failure == .unknown {
            let waiting = window.commits?.takeRefused(includingEnd: true) ?? []
            return publishers.refused(waiting, Refusal.store(failure), now: now)
        }
        window.commits?.refuseEnd()
        ownership.timers.schedule(self, now: now.monotonic)
    }

    /// Asks the store again to note the topic's end.
    func repeatEnd() {
        guard let request = endRequest, window.commits?.refusedEnds ?? 0 > 0 else { return }
        if !isDeleted { keep(again: true) }
        for _ in 0..<(window.commits?.takeRefusedEnds() ?? 0) { ownership.effects.store.append(request) }
    }

    /// Whether the next tick has to hand messages or the end to the store again, or to check whether publishers may
    /// continue because the store has written messages of other topics.
    var awaitsStoreTick: Bool {
        guard let commits = window.commits else { return false }
        let isDeletionRequested = window.stored?.isDeletionRequested ?? false
        return !isDeletionRequested && commits.hasNew(in: log) || commits.refusedEnds > 0
            || publishers.room.unwrittenLimit == 0 && publishers.blockedCount > 0
    }

    // Memory

    /// Whether the topic stays when it is idle, because the store keeps it.
    var isKept: Bool { !isDeleted && window.stored?.isKept == true }
    /// Whether only the store has the topic's messages.
    var isUnloaded: Bool { isKept && log.isEmpty }

    /// The store need not keep messages before `sequence`.
    func trim(before sequence: SequenceNumber) {
        guard let stored = window.stored, let written = window.commits?.written else { return }
        // What the store has not written yet must follow what it has.
        let sequence = Swift.min(sequence, written)
        guard window.stored?.trim(before: sequence) == true else { return }
        log.evict(before: sequence)
        ownership.effects.store.append(.trim(stored.id, before: sequence))
    }

    /// Removes messages from memory except for the newest `most` bytes, and messages that the store has not written.
    func unload(to most: Int) {
        guard let written = window.commits?.written else { return }
        window.stored?.evict(log, before: Swift.min(log.firstWithin(memory: most), written))
    }

    /// Updates how many messages publishers may append before the store has written others.
    func updateUnwritten() {
        guard let written = window.commits?.written else { return }
        let limit = ownership.limits.uncommittedBytes
        publishers.room.unwrittenLimit = ownership.store.uncommitted > limit ? 0 : limit / 4
        publishers.room.chargedBeforeUnwritten = window.charged(before: written)
        let unwritten = Int(log.charged - publishers.room.chargedBeforeUnwritten)
        if unwritten >= limit / 4, window.unwritten < limit / 4 { ownership.reached(.uncommitted) }
        ownership.store.addUncommitted(unwritten - window.unwritten)
        window.unwritten = unwritten
    }

    /// The topic is removed, perhaps with messages that the store has refused.
    func releaseUnwritten() {
        ownership.store.addUncommitted(-window.unwritten)
        if isShared, window.unwritten > 0 { ownership.memory.add(-window.unwritten) }
        window.unwritten = 0
    }

    /// Like `unload`, here and on other shards, because memory is short or the topic is idle.
    func giveBack(to most: Int, now: Instant) {
        let before = log.head
        unload(to: most)
        log.releaseLastChunk()
        publishers.releaseIfEmpty()
        if log.head > before { advanceOtherViews(now: now) }
    }
}

extension TopicState {
    /// The end that the store notes; nil while the topic is live.
    fileprivate var stored: StoredEnd? {
        switch self {
        case .live: nil
        case .completed: .completed
        case .failed(let reason): .failed(reason)
        case .left: nil
        }
    }
}
