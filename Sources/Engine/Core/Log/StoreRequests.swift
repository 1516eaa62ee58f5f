// StoreRequests: what shards send to the store that keeps their topics, and what it reports. A shard passes requests
// to its driver in `Effects.store`, in order. The driver reports back with `Shard.stored` and `Shard.answer`.
//
//     shard ── keep, append, trim, end, delete, purge ──▶ store ── committed, ended, refused ──▶ shard
//           ── read ──────────────────────────────────▶       ── HistoryAnswer ──────────────▶

import Replay

/// Identifies a topic in the store. In contrast to its epoch, it never changes.
public struct StoreID: Hashable, Sendable {
    public let value: UInt64
    public init(_ value: UInt64) { self.value = value }
}

/// How a topic keeps its messages. Fixed when the topic is created.
public enum TopicStorage: Sendable, Equatable {
    /// In memory: a restart loses them.
    case memory
    /// In the store. They become visible, and are acknowledged, once they are on disk.
    case durable
    /// In the store, a little later than they become visible.
    case relaxed
    /// In a stream of NATS JetStream, for several nodes. They become visible, and are acknowledged, once they are read
    /// from it.
    case shared
}

/// An epoch that a topic had before.
public struct FormerEpoch: Sendable, Equatable {
    public var epoch: UInt64
    /// The sequence after its last stored message. Later messages of that epoch are lost.
    public var end: SequenceNumber

    public init(epoch: UInt64, end: SequenceNumber) {
        self.epoch = epoch
        self.end = end
    }
}

/// How a stored topic ended.
public enum StoredEnd: Sendable, Equatable {
    case completed
    case failed(String)
}

/// What the store keeps about a topic besides its messages.
public struct StoredTopicRow: Sendable, Equatable {
    /// The most former epochs that are remembered.
    public static let mostFormer = 16

    public var id: StoreID
    public var name: String
    public var epoch: UInt64
    public var isRelaxed: Bool
    public var end: StoredEnd?
    /// Oldest first.
    public var former: [FormerEpoch] = []

    public init(
        id: StoreID, name: String, epoch: UInt64, isRelaxed: Bool, end: StoredEnd? = nil, former: [FormerEpoch] = []
    ) {
        self.id = id
        self.name = name
        self.epoch = epoch
        self.isRelaxed = isRelaxed
        self.end = end
        self.former = former
    }
}

/// A topic that the store has from an earlier run of the broker.
public struct StoredTopic: Sendable {
    public var row: StoredTopicRow
    /// The oldest message, and the sequence after the newest.
    public var messages: SequenceRange
    /// The total charge of all messages before the oldest, and before the end, in bytes.
    public var charged: ClosedRange<UInt64>
    /// When the broker accepted the newest message, in ns since 1970.
    public var lastTimestamp: Int64
    public var publishers: [StoredPublisher]
    /// Whether messages after the end may have been seen before a crash. The topic then takes a new epoch.
    public var mayHaveLost: Bool

    public init(
        row: StoredTopicRow, messages: SequenceRange, charged: ClosedRange<UInt64>, lastTimestamp: Int64,
        publishers: [StoredPublisher] = [], mayHaveLost: Bool
    ) {
        self.publishers = publishers
        self.row = row
        self.messages = messages
        self.charged = charged
        self.lastTimestamp = lastTimestamp
        self.mayHaveLost = mayHaveLost
    }
}

/// A shard's request to the store.
public enum StoreRequest: Sendable {
    /// Keep a topic. Comes before its first messages, and again when it takes a new epoch.
    case keep(StoredTopicRow)
    case append(AppendedMessages)
    /// The numbers of publishers, with the messages appended before.
    case publishers(StoreID, PublisherChanges)
    /// Messages of the topic before `before` are no longer needed.
    case trim(StoreID, before: SequenceNumber)
    /// The topic has ended: it takes no more messages.
    case end(StoreID, epoch: UInt64, StoredEnd)
    /// The topic has been deleted: a restart does not find it any more. Its messages can be read until `purge`.
    case delete(StoreID, epoch: UInt64)
    /// The messages of a deleted topic are no longer needed.
    case purge(StoreID)
    /// Read messages. `Shard.answer` takes the result.
    case read(HistoryRequest)
    /// Search for a message by time. `Shard.found` takes the result.
    case search(TimeSearch)
}

/// Progress of the store with the requests of one shard. Topics are identified by epoch. `attempt` is that of the
/// messages: reports about messages that the topic has withdrawn since then are ignored.
public enum StoreReport: Sendable {
    /// The messages before `upTo` are on disk.
    case committed(topic: UInt64, attempt: UInt32, upTo: SequenceNumber)
    /// The topic's end, or its deletion, is on disk.
    case ended(topic: UInt64)
    /// None of the topic's messages that were not reported as committed are on disk, or it is unknown whether they are.
    case refused(topic: UInt64, attempt: UInt32, StoreFailure)
    /// The topic's end, or its deletion, is not on disk, or it is unknown whether it is.
    case endRefused(topic: UInt64, StoreFailure)
}

/// Why the store did not commit.
public enum StoreFailure: Sendable, Equatable {
    /// The disk, or the store, is full. Nothing was written.
    case full
    /// Nothing was written.
    case aborted
    /// A write or a sync failed. The store takes no more writes until the broker is restarted.
    case unknown
}
