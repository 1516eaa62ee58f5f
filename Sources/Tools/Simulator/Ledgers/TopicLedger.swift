// TopicLedger: what the ledgers know about a topic: its messages, and how far the broker and its store are.

import Core

/// A topic from its creation to its end, as the ledgers know it.
final class TopicLedger {
    let name: String
    let epoch: UInt64
    let storage: StorageLedger
    /// All states of the topic so far: "live", "completed", "failed". Clients that were not notified of one end may be
    /// notified of the next.
    var states: Set<String> = ["live"]
    /// Whether the topic is gone from every shard. What arrived at its last moment was not observed.
    var isGone = false
    /// The sequence of the next message.
    var end: UInt64 = 1
    /// Messages before this sequence are committed; all messages are, if the topic is not stored.
    var committed: UInt64 = 1
    /// The same for what is written, if the topic is stored.
    var written: UInt64 = 1
    /// The known messages by sequence.
    var numbers: [UInt64: Int] = [:]
    var charges: [UInt64: Int] = [:]
    /// In ns since 1970.
    var timestamps: [UInt64: Int64] = [:]
    /// Whether a shard may be a MiB behind. It then receives later messages with a delay, even acknowledged ones: a
    /// subscription that joins there in the meantime receives them as new ones.
    var mayLag: Bool { charges.values.reduce(0, +) > 1 << 20 }
    /// The log's head as last observed.
    var head: UInt64 = 1
    /// Like `head`, but including messages in the store.
    var kept: UInt64 = 1
    /// The oldest message that a new subscription may get.
    var retained: UInt64 = 1
    var lost: UInt64 = 1
    var forgotten: UInt64 = 1
    var horizon: UInt64?
    /// Bytes of the topic's log, and whether a `block` subscription retained some of them.
    var bytes = 0
    var isBlocked = false
    /// The unused credit of the topic's channels, and the part of it with reserved room.
    var outstanding = 0
    var reserved = 0
    /// Channels that have not sent their first message.
    var firsts = 0

    init(name: String, epoch: UInt64, _ storage: StorageLedger? = nil) {
        self.name = name
        self.epoch = epoch
        self.storage = storage ?? StorageLedger(epoch)
    }

    /// The first message before `end` whose timestamp is at or after `time`; `end` if there is none. It is a range if
    /// not all messages were observed.
    func first(atOrAfter time: Int64, before end: UInt64) -> ClosedRange<UInt64> {
        let earlier = timestamps.filter { $0.key < end && $0.value < time }.keys.max()
        let first = timestamps.filter { $0.key < end && $0.value >= time }.keys.min() ?? end
        return Swift.min(earlier.map { $0 + 1 } ?? 1, first)...first
    }
}

/// What the ledgers know about a topic's place in the store.
final class StorageLedger {
    /// Identifies the topic in the store: its first epoch.
    let id: UInt64
    var kind = TopicStorage.memory
    /// How often messages have been withdrawn since the broker was started.
    var withdrawals: UInt32 = 0
    /// The oldest message that the store had when the broker was started.
    var first: UInt64 = 1
    /// The ends of the epochs that the topic had before.
    var former: [UInt64: UInt64] = [:]
    /// Whether a client knows that the topic has ended, or that it is deleted. A restart must not change that.
    var isEnded = false
    var isDeleted = false

    init(_ id: UInt64) { self.id = id }
}
