// StoreReading: reads batches, on any thread, in a read transaction for each call. A batch whose CRC is wrong is never
// returned.

import CStoreIO

/// What was found at a sequence.
public enum StoreRead: Sendable {
    /// Consecutive batches; the first contains the sequence. Empty if nothing has been stored there yet.
    case found([StoredBatch])
    /// The messages before this sequence have been trimmed or deleted.
    case gone(before: UInt64)
    /// The messages before this sequence cannot be read. Reading may continue there.
    case unreadable(before: UInt64, reason: String)
}

/// Where reading begins for a time.
public enum StorePosition: Sendable, Equatable {
    /// The first sequence of the first batch with a message at or after the time.
    case sequence(UInt64)
    /// No stored message is that recent.
    case end
    case unreadable(String)
}

extension Store {
    /// Reads batches from the one that contains `sequence`, until `upTo` or until their bodies have `bytes` bytes, and
    /// at least one.
    public func read(_ id: TopicID, from sequence: UInt64, upTo: UInt64, bytes: Int) -> StoreRead {
        do throws(Failure) {
            return try reading { transaction throws(Failure) in
                try transaction.withCursor(.batches) { cursor throws(Failure) in
                    try Store.read(id, sequence, upTo, bytes, cursor)
                }
            }
        } catch {
            return .unreadable(before: upTo, reason: error.text)
        }
    }

    private static func read(
        _ id: TopicID, _ sequence: UInt64, _ upTo: UInt64, _ bytes: Int, _ cursor: Cursor
    ) throws(Failure) -> StoreRead {
        guard var row = try find(id, sequence, cursor) else {
            guard let next = try cursor.seek(id.value, sequence), next.id == id.value else { return .found([]) }
            // Nothing at the sequence, but something after it: trimmed, or lost.
            let isFirst = try cursor.previous().map { $0.id != id.value } ?? true
            return isFirst
                ? .gone(before: next.sequence)
                : .unreadable(before: next.sequence, reason: "messages are missing")
        }
        var found: [StoredBatch] = []
        var size = 0
        while true {
            let batch: StoredBatch
            do throws(Failure) {
                batch = try StoredBatch(id, row)
            } catch {
                guard found.isEmpty else { break }
                let next = try cursor.next()
                let end = next?.id == id.value ? next!.sequence : upTo
                return .unreadable(before: max(end, sequence + 1), reason: error.text)
            }
            found.append(batch)
            size += batch.body.count
            guard size < bytes, batch.end < upTo, let next = try cursor.next(), next.id == id.value,
                next.sequence == batch.end
            else { break }
            row = next
        }
        return .found(found)
    }

    /// The row of the batch that contains a sequence, also if its header is damaged and it may.
    private static func find(_ id: TopicID, _ sequence: UInt64, _ cursor: Cursor) throws(Failure) -> fb_store_row? {
        let after = try cursor.seek(id.value, sequence)
        if let after, after.id == id.value, after.sequence == sequence { return after }
        guard let row = try after == nil ? cursor.last() : cursor.previous(), row.id == id.value else { return nil }
        guard let header = try row.header() else {
            // Its length is unknown. It reaches to the next batch, or is the last.
            return row
        }
        return row.sequence + UInt64(header.count) > sequence ? row : nil
    }

    /// The position of the first message at or after a time in nanoseconds since 1970.
    public func first(_ id: TopicID, atOrAfter timestamp: Int64) -> StorePosition {
        do throws(Failure) {
            return try reading { transaction throws(Failure) in
                try transaction.withCursor(.batches) { cursor throws(Failure) in
                    try Store.first(id, timestamp, cursor)
                }
            }
        } catch {
            return .unreadable(error.text)
        }
    }

    /// A binary search over sequences. Timestamps never decrease within a topic.
    private static func first(_ id: TopicID, _ timestamp: Int64, _ cursor: Cursor) throws(Failure) -> StorePosition {
        guard let oldest = try cursor.seek(id.value, 0), oldest.id == id.value,
            let newest = try cursor.last(of: id.value)
        else { return .end }
        // Batches that begin before `low` are older. `best` is the lowest known one that is not.
        var low = oldest.sequence
        var high = newest.sequence
        var best: UInt64?
        while low <= high {
            let middle = low + (high - low) / 2
            guard let (row, header) = try intact(id, from: middle, cursor) else {
                if middle == low { break }
                high = middle - 1
                continue
            }
            if header.lastTimestamp >= timestamp {
                best = min(best ?? .max, row.sequence)
                if middle == low { break }
                high = middle - 1
            } else {
                low = row.sequence + 1
            }
        }
        return best.map { .sequence($0) } ?? .end
    }

    /// The first batch at or after a sequence whose header is intact. Damaged ones are passed over.
    private static func intact(
        _ id: TopicID, from sequence: UInt64, _ cursor: Cursor
    ) throws(Failure) -> (fb_store_row, BatchHeader)? {
        var row = try cursor.seek(id.value, sequence)
        while let found = row, found.id == id.value {
            if let header = try found.header() { return (found, header) }
            row = try cursor.next()
        }
        return nil
    }
}

extension StoredBatch {
    /// Copies a batch out of the map and checks it.
    init(_ id: TopicID, _ row: fb_store_row) throws(Failure) {
        guard let header = try row.header(), Int(header.bodySize) <= StoredBatch.mostBytes else {
            throw Failure.corrupted
        }
        let memory = StoredBody(count: Int(header.bodySize))
        try Failure.check(fb_store_copy(memory.memory.baseAddress, row.value + BatchHeader.size, memory.count))
        var bytes = InlineArray<64, UInt8>(repeating: 0)
        var code: Int32 = 0
        var crc: UInt32 = 0
        withUnsafeMutableBytes(of: &bytes) {
            code = fb_store_copy($0.baseAddress, row.value, BatchHeader.size)
            crc = BatchHeader.crc(of: UnsafeRawBufferPointer($0), memory.bytes, topic: id, first: row.sequence)
        }
        try Failure.check(code)
        guard crc == header.crc else { throw Failure.corrupted }
        self.init(
            first: row.sequence, count: Int(header.count), firstTimestamp: header.firstTimestamp,
            lastTimestamp: header.lastTimestamp, chargedBefore: header.chargedBefore,
            chargedAfter: header.chargedAfter, body: memory)
    }
}
