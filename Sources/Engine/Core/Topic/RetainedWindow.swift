// RetainedWindow: the messages of a topic that its owner holds, and which of them are replayed to new subscriptions.
//
//     oldest       lost, forgotten        retained          committed      log.end
//       |  subscribers are waiting |  too old for replay | replayed | not yet visible |
//
// This type only does the accounting. The topic decides when messages are evicted and informs its views.

import Replay

struct RetainedWindow {
    let log: Log
    /// Nil for a topic in memory.
    var commits: CommitLine?
    var stored: StoredLog?
    /// Bytes of messages that the store has not written, as counted in `StoreHealth`.
    var unwritten = 0
    /// The topic's retention limits from the settings.
    private(set) var retention: Retention
    /// History before this is not replayed, because it is too old or memory was short.
    private(set) var forgotten = SequenceNumber(1)
    /// The age of messages; maintained while `retention.age` is not 0.
    private var ages = AgeMarks()
    /// Messages before this were lost to the byte limit.
    private(set) var lost = SequenceNumber(1)
    /// Messages before `before` were lost because memory was short; `used` is the memory in use at that time, in bytes.
    private(set) var shed = (before: SequenceNumber(1), used: 0)

    init(_ log: Log, _ retention: Retention, _ stored: StoredLog?) {
        self.log = log
        self.retention = retention
        self.stored = stored
        if stored != nil { commits = CommitLine(end: log.end) }
    }

    /// Whether messages and the topic's end wait for the store before they are visible and acknowledged.
    var awaitsStore: Bool { stored.map { !$0.isRelaxed } ?? false }
    var storage: TopicStorage { stored.map { $0.isRelaxed ? .relaxed : .durable } ?? .memory }
    /// Messages before this are visible to subscribers and acknowledged to publishers.
    var committed: SequenceNumber {
        guard let commits, awaitsStore else { return log.end }
        return commits.written
    }
    var isCommitted: Bool { committed == log.end }
    /// Whether the topic's end, if it has ended, is visible to subscribers.
    var isEndCommitted: Bool { !awaitsStore || commits?.isEndWritten == true }
    /// The oldest message in memory or in the store.
    var oldest: SequenceNumber { stored?.kept ?? log.head }
    /// The oldest message retained for replay. Sequences without a message count as messages here.
    var retained: SequenceNumber {
        let committed = committed
        let newest = committed.advanced(by: -Swift.min(retention.messages, committed - oldest))
        return Swift.max(newest, Swift.min(forgotten, committed))
    }
    /// The first sequence from which on the log fits its byte limit.
    var firstWithinLimit: SequenceNumber {
        stored?.firstWithin(retention.bytes, log) ?? log.firstWithin(retention.bytes)
    }

    /// The total charge of all messages before `sequence`, in bytes; a little less if they are only in the store.
    func charged(before sequence: SequenceNumber) -> UInt64 {
        guard let stored, sequence < log.head else { return log.charged - UInt64(log.bytes(from: sequence)) }
        return stored.charged(before: sequence)
    }

    /// Stops replaying messages before `sequence`. Returns false if their replay had stopped before.
    @discardableResult
    mutating func discard(before sequence: SequenceNumber) -> Bool {
        assert(sequence <= log.end)
        guard sequence > forgotten else { return false }
        forgotten = sequence
        return true
    }

    /// Removes the messages that the store has refused. Others will take their sequences.
    mutating func withdrawUnwritten() {
        guard let written = commits?.written else { return }
        log.removeAll(from: written)
        forgotten = Swift.min(forgotten, written)
        ages.remove(from: written)
        commits?.withdraw()
    }

    /// Evicts the head of the log, even if subscriptions wait for it.
    /// - Parameter used: bytes of memory in use, if that is the reason.
    mutating func lose(before sequence: SequenceNumber, memory used: Int?) {
        assert(sequence > oldest && sequence <= log.end)
        lost = sequence
        if let used { shed = (sequence, used) }
        log.evict(before: sequence)
    }

    /// Adopts new retention limits. What the previous limits released does not come back.
    mutating func retain(_ retention: Retention, now: Instant) {
        discard(before: retained)
        let hadAge = self.retention.age > 0
        self.retention = retention
        if !hadAge, retention.age > 0 { ages.begin(with: log, now: now) }
    }

    // Age

    /// Notes new messages, if any.
    mutating func noteAge(now: UInt64) {
        if retention.age > 0 { ages.note(end: log.end, age: retention.age, now: now) }
    }

    /// Forgets messages that have become too old. Returns whether there were any.
    mutating func removeOld(now: UInt64) -> Bool {
        guard retention.age > 0 else { return false }
        noteAge(now: now)
        guard let old = ages.takeOld(age: retention.age, now: now), old > oldest else { return false }
        return discard(before: old)
    }

    /// The time before which messages of earlier runs are too old, in ns since 1970; nil if there are none.
    func oldest(now: Instant) -> Int64? {
        stored?.isSearching == false ? oldestTime(now: now) : nil
    }

    /// The same while the store is to search for them.
    func oldestTime(now: Instant) -> Int64? {
        guard let stored, retention.age > 0 else { return nil }
        return Swift.max(forgotten, oldest) < stored.earlierEnd ? now.wall &- Int64(clamping: retention.age) : nil
    }

    /// When messages may have become too old, on the monotonic clock; nil if never.
    func ageDeadline(now: UInt64) -> UInt64? {
        guard retention.age > 0, Swift.max(forgotten, oldest) < log.end else { return nil }
        return now + Swift.max(Timers.interval, retention.age / AgeMarks.count)
    }
}
