// StoreTopics: what the store holds, topic by topic, in one pass over three databases that are sorted by topic id.

import CStoreIO

/// What the batches of a topic say.
struct TopicExtent {
    var first: UInt64 = 1
    var end: UInt64 = 1
    var chargedBefore: UInt64 = 0
    var charged: UInt64 = 0
    var lastTimestamp: Int64 = 0
    var isDamaged = false

    init() {}

    /// Reads the headers of the first and last batch only.
    init(of id: UInt64, _ batches: Cursor) throws(Failure) {
        guard let oldest = try batches.seek(id, 0), oldest.id == id else { return }
        var newest = oldest
        if let next = try batches.next(), next.id == id { newest = try batches.last(of: id) ?? oldest }
        first = oldest.sequence
        end = newest.sequence + 1
        isDamaged = true
        guard let begin = try oldest.header(), let last = try newest.header() else { return }
        isDamaged = false
        end = newest.sequence + UInt64(last.count)
        chargedBefore = begin.chargedBefore
        charged = last.chargedAfter
        lastTimestamp = last.lastTimestamp
    }
}

extension Store {
    /// All topics with their publishers. Deleted topics are left out and queued to be purged.
    /// - Important: Call it on the writer's thread, or before it runs.
    public func topics() throws(StoreError) -> [StoredTopic] {
        var found: [StoredTopic] = []
        var deleted: [TopicID] = []
        do throws(Failure) {
            try reading { transaction throws(Failure) in
                deleted = try Store.scanTopics(transaction) { row, extent, publishers throws(Failure) in
                    found.append(
                        StoredTopic(
                            record: row.record, first: extent.first, end: extent.end,
                            chargedBefore: extent.chargedBefore, charged: extent.charged,
                            lastTimestamp: extent.lastTimestamp, publishers: publishers,
                            isStale: row.generation < self.generation, isDamaged: extent.isDamaged))
                }
            }
        } catch {
            throw .unusable("the topics cannot be read: \(error.text)")
        }
        if !options.isReadOnly { writing.deleted = deleted }
        return found
    }

    /// Calls `body` for each topic, in the order of their ids, and returns those that have been deleted.
    static func scanTopics(
        _ transaction: Transaction,
        _ body: (TopicRow, TopicExtent, [PublisherRecord]) throws(Failure) -> Void
    ) throws(Failure) -> [TopicID] {
        try transaction.withCursor(.topics) { topics throws(Failure) in
            try transaction.withCursor(.batches) { batches throws(Failure) in
                try transaction.withCursor(.publishers) { publishers throws(Failure) in
                    var deleted: [TopicID] = []
                    var publisher = try publishers.first()
                    var next = try topics.first()
                    var last: UInt64?
                    while let found = next {
                        let id = found.id
                        // A damaged tree can contain a cycle.
                        guard last.map({ $0 < id }) ?? true,
                            let row = try found.bytes().withUnsafeBytes({ TopicRow(TopicID(id), $0) })
                        else { throw Failure.corrupted }
                        last = id
                        next = try topics.next()
                        if row.isDeleted {
                            deleted.append(TopicID(id))
                            continue
                        }
                        if let ahead = publisher, ahead.id < id { publisher = try publishers.seek(id) }
                        let records = try Store.publishers(of: id, publishers, &publisher)
                        try body(row, try TopicExtent(of: id, batches), records)
                    }
                    return deleted
                }
            }
        }
    }

    /// Reads the publishers of a topic from the row `current` on, and leaves `current` after them.
    private static func publishers(
        of id: UInt64, _ cursor: Cursor, _ current: inout fb_store_row?
    ) throws(Failure) -> [PublisherRecord] {
        var records: [PublisherRecord] = []
        while let row = current, row.id == id {
            let key = try row.restBytes()
            guard let record = try row.bytes().withUnsafeBytes({ PublisherRecord(key, $0) }),
                records.last.map({ $0.key.lexicographicallyPrecedes(key) }) ?? true
            else { throw Failure.corrupted }
            records.append(record)
            current = try cursor.next()
        }
        return records
    }
}
