// StoreTopics: what the store holds, topic by topic, in one pass over databases that are sorted by topic id.

import CStoreIO

extension Store {
    /// All topics with their publishers, in the order of their ids. Any thread may call it.
    public func topics() throws(StoreError) -> [TopicSummary] {
        var found: [TopicSummary] = []
        try forEachTopic { found.append($0) }
        return found
    }

    /// Calls `body` for each topic, in the order of their ids. Any thread may call it.
    public func forEachTopic(_ body: (TopicSummary) -> Void) throws(StoreError) {
        do throws(Failure) {
            try reading { transaction throws(Failure) in
                try Store.scanTopics(transaction) { row, extent, publishers throws(Failure) in
                    body(
                        TopicSummary(
                            record: row.record, first: extent.isEmpty ? 1 : extent.first,
                            end: extent.isEmpty ? 1 : extent.end, chargedBefore: extent.chargedBefore,
                            charged: extent.charged,
                            lastTimestamp: extent.lastTimestamp, publishers: publishers,
                            isStale: row.generation < self.generation))
                }
            }
        } catch {
            throw .unusable("the topics cannot be read: \(error.text)")
        }
    }

    /// Calls `body` for each topic, in the order of their ids.
    static func scanTopics(
        _ transaction: Transaction,
        _ body: (TopicRow, TopicExtent, [PublisherRecord]) throws(Failure) -> Void
    ) throws(Failure) {
        try transaction.withCursor(.topics) { topics throws(Failure) in
            try transaction.withCursor(.extents) { extents throws(Failure) in
                try transaction.withCursor(.publishers) { publishers throws(Failure) in
                    var publisher = try publishers.first()
                    var extent = try extents.first()
                    var next = try topics.first()
                    var last: UInt64?
                    while let current = next {
                        let id = current.id
                        // A damaged tree can contain a cycle.
                        guard last.map({ $0 < id }) ?? true,
                            let row = try current.bytes().withUnsafeBytes({ TopicRow(TopicID(id), $0) })
                        else { throw Failure.corrupted }
                        last = id
                        next = try topics.next()
                        guard let described = extent, described.id == id,
                            let found = try described.bytes().withUnsafeBytes({ TopicExtent($0) })
                        else { throw Failure.corrupted }
                        extent = try extents.next()
                        if let ahead = publisher, ahead.id < id { publisher = try publishers.seek(id) }
                        let records = try Store.publishers(of: id, publishers, &publisher)
                        try body(row, found, records)
                    }
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
