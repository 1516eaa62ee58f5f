// Records: the rows of the topic and publisher tables, as the engine sees them.

/// The identity of a topic in the store. It is random; a topic that is created again under its name has a new one.
public struct TopicID: Hashable, Sendable {
    public let value: UInt64

    public init(_ value: UInt64) { self.value = value }
}

/// How a topic ended.
public enum StoredEnd: Sendable, Equatable {
    case completed
    /// The error's text.
    case failed(String)
}

/// An earlier epoch of a topic.
public struct FormerEpoch: Sendable, Equatable {
    public var epoch: UInt64
    /// The sequence after the last one that was stored in the epoch.
    public var end: UInt64

    public init(epoch: UInt64, end: UInt64) {
        self.epoch = epoch
        self.end = end
    }
}

/// A row of the topic table.
public struct TopicRecord: Sendable, Equatable {
    public var id: TopicID
    public var name: String
    public var epoch: UInt64
    /// Whether messages are committed in memory before they are stored.
    public var isRelaxed: Bool
    /// Nanoseconds since 1970.
    public var createdAt: Int64
    public var end: StoredEnd?
    /// Earlier epochs, newest last. The store keeps the newest `mostFormer`.
    public var former: [FormerEpoch]

    public init(
        id: TopicID, name: String, epoch: UInt64, isRelaxed: Bool, createdAt: Int64, end: StoredEnd? = nil,
        former: [FormerEpoch] = []
    ) {
        self.id = id
        self.name = name
        self.epoch = epoch
        self.isRelaxed = isRelaxed
        self.createdAt = createdAt
        self.end = end
        self.former = former
    }

    /// Maximum number of earlier epochs in a record.
    public static let mostFormer = 16
}

/// A publisher's state on a topic.
public struct PublisherRecord: Sendable, Equatable {
    /// The publisher's user and id; at most `mostKeyBytes`.
    public var key: [UInt8]
    /// The last number that was accepted.
    public var number: UInt64
    /// The sequence of the message with that number.
    public var sequence: UInt64
    /// Nanoseconds since 1970.
    public var usedAt: Int64

    public init(key: [UInt8], number: UInt64, sequence: UInt64, usedAt: Int64) {
        self.key = key
        self.number = number
        self.sequence = sequence
        self.usedAt = usedAt
    }

    /// Maximum length of `key` in bytes; LMDB's keys have at most 511.
    public static let mostKeyBytes = 480
}

/// A topic as found in the store: its record and what its batches say.
public struct TopicSummary: Sendable, Equatable {
    public var record: TopicRecord
    /// The first sequence stored; 1 if the topic has never had a batch.
    public var first: UInt64
    /// The sequence after the last one stored; 1 if the topic has never had a batch.
    public var end: UInt64
    /// The charge of all messages before `first`.
    public var chargedBefore: UInt64
    /// The charge of all messages that the topic ever had.
    public var charged: UInt64
    /// Nanoseconds since 1970; 0 without batches.
    public var lastTimestamp: Int64
    public var publishers: [PublisherRecord]
    /// Whether the record was written before the last unclean start. A relaxed topic must then take a new epoch before
    /// it is used, because messages after `end` may have been delivered.
    public var isStale: Bool
}
