// StorePurge: removes what deletions and trims left, a bounded number of rows per transaction.

import CStoreIO

extension Store {
    /// Maximum number of batches that one transaction deletes when a topic is trimmed.
    static let trimmedRows = 1024
    /// Maximum number of rows of deleted topics that one transaction deletes; a large batch counts as several.
    static let purgedRows = 4096
    /// A step of the purge can delete this many small topics.
    static let purgedTopics = 2048

    /// Whether `purgeSome` has work to do.
    public var needsPurge: Bool { !writing.isPurgePaused && (!writing.deleted.isEmpty || !writing.trims.isEmpty) }

    /// Lets `purgeSome` try again.
    func resumePurge() { writing.isPurgePaused = false }

    /// Deletes some rows of deleted or trimmed topics, in a transaction of its own. Only the writer's thread may call
    /// it. After a failure, it pauses until `resumePurge`. A topic whose rows cannot be deleted is left for the next
    /// opening of the store.
    public func purgeSome() throws(StoreError) {
        do throws(StoreError) {
            if let (id, sequence) = writing.trims.first {
                writing.trims[id] = nil
                do throws(StoreError) {
                    _ = try commit([.trim(id, before: sequence)])
                } catch {
                    writing.trims[id] = sequence
                    throw error
                }
            } else if !writing.deleted.isEmpty {
                try purgeDeleted()
            }
        } catch {
            writing.isPurgePaused = true
            throw error
        }
    }

    private func purgeDeleted() throws(StoreError) {
        var finished = 0
        var underWay: Int?
        do throws(StoreError) {
            try transact { transaction throws(Failure) in
                var rows = Store.purgedRows
                for index in writing.deleted.indices.reversed() {
                    underWay = index
                    rows -= try Store.purge(writing.deleted[index], atMost: rows, transaction)
                    guard rows > 0 else { break }
                    finished += 1
                }
                underWay = nil
                return false
            }
        } catch {
            if let underWay, error != .full { writing.deleted.remove(at: underWay) }
            throw error
        }
        writing.deleted.removeLast(finished)
    }

    /// Deletes batches that lie wholly before a sequence, but never the newest.
    /// - Returns: the first remaining batch, whose header is nil if it is damaged, and whether all others are gone.
    static func trim(
        _ id: TopicID, before sequence: UInt64, _ transaction: Transaction
    ) throws(Failure) -> (first: UInt64?, header: BatchHeader?, isDone: Bool) {
        var old: [UInt64] = []
        let remaining = try transaction.withCursor(.batches) { cursor throws(Failure) -> (UInt64, BatchHeader?)? in
            guard var row = try cursor.seek(id.value, 0), row.id == id.value else { return nil }
            while old.count < trimmedRows, let next = try cursor.next(), next.id == id.value,
                next.sequence <= sequence, next.sequence > row.sequence
            {
                old.append(row.sequence)
                row = next
            }
            return (row.sequence, try row.header())
        }
        for first in old { try transaction.delete(.batches, id.value, first) }
        return (remaining?.0, remaining?.1, old.count < trimmedRows)
    }

    /// Deletes rows of a deleted topic; the one in `deleted` is the last.
    /// - Returns: how many; at least `most` if rows may remain.
    private static func purge(_ id: TopicID, atMost most: Int, _ transaction: Transaction) throws(Failure) -> Int {
        var batches: [UInt64] = []
        var publishers: [[UInt8]] = []
        var count = 0
        try transaction.withCursor(.batches) { cursor throws(Failure) in
            var row = try cursor.seek(id.value)
            while let found = row, found.id == id.value, count < most {
                batches.append(found.sequence)
                count += 1 + found.size >> 14
                row = try cursor.next()
            }
        }
        try transaction.withCursor(.publishers) { cursor throws(Failure) in
            var row = try cursor.seek(id.value)
            while let found = row, found.id == id.value, count < most {
                publishers.append(try found.restBytes())
                count += 1
                row = try cursor.next()
            }
        }
        for first in batches { try transaction.delete(.batches, id.value, first) }
        for key in publishers { try transaction.delete(.publishers, id.value, rest: key) }
        guard count < most else { return count }
        try transaction.delete(.deleted, id.value)
        return count + 1
    }
}
