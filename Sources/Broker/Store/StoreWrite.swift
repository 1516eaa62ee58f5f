// StoreWrite: what the engine asks the store to write, and what became of it.

/// One change of the store.
public enum StoreWrite: Sendable {
    /// Adds a topic, or replaces its record, for example with a new epoch. If the record says that the topic has ended,
    /// this is part of the end.
    case create(TopicRecord)
    /// Adds messages, which must follow the topic's last one without a gap. A topic's first batch may begin anywhere.
    case append(TopicID, any BatchSource)
    /// Deletes batches that lie wholly before a sequence. The newest batch is always kept, so that the topic's end
    /// stays known.
    case trim(TopicID, before: UInt64)
    case end(TopicID, StoredEnd)
    /// Adds or replaces publishers, and removes those with these keys.
    case publishers(TopicID, [PublisherRecord], removed: [[UInt8]])
    /// Deletes a topic at once. Its batches can be read until `purge`, or until the store is opened again.
    case delete(TopicID)
    /// Deletes the batches of a deleted topic, in steps.
    case purge(TopicID)

    /// Whether the write may use the reserve, and is repeated without the others of a commit that failed.
    var isMaintenance: Bool {
        switch self {
        case .create(let record): record.end != nil
        case .append, .publishers: false
        case .trim, .end, .delete, .purge: true
        }
    }

    /// Whether the write makes the store larger. Publishers do too, but are limited in number.
    var isGrowing: Bool {
        switch self {
        case .create(let record): record.end == nil
        case .append: true
        case .trim, .end, .delete, .purge, .publishers: false
        }
    }

    /// Estimated bytes, to bound transactions.
    var size: Int {
        switch self {
        case .append(_, let source): source.bodySize + 256
        case .publishers(_, let records, let removed): 256 * (1 + records.count + removed.count)
        case .create, .trim, .end, .delete, .purge: 256
        }
    }
}

/// A successful commit.
public struct Commit: Sendable, Equatable {
    /// Bytes of batches, headers included.
    public var bytes = 0
    /// Batches written.
    public var batches = 0
    /// Size of all databases in bytes afterwards.
    public var used: UInt64 = 0
}
