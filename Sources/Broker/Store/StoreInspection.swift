// StoreInspection: what tools show of a store: figures, a check of every byte, and the messages of a topic. They use
// short read transactions, so they may run on a store that is in use.

import CStoreIO
import Glibc

/// Figures of a store.
public struct StoreInfo: Sendable, Equatable {
    public var topics: UInt64 = 0
    /// Deleted topics that have not been purged yet.
    public var deleted: UInt64 = 0
    public var batches: UInt64 = 0
    public var publishers: UInt64 = 0
    /// Size of all databases in bytes.
    public var used: UInt64 = 0
    /// Bytes of the data file up to the last page ever used, free pages included.
    public var file: UInt64 = 0
    /// Size of the map in bytes: the limit and its reserve.
    public var map: UInt64 = 0
    /// Number of unclean starts.
    public var generation: UInt64 = 0
    /// Whether the store was closed, and is not open for writing.
    public var isClean = false
    /// Whether it is a copy that has not been opened for writing.
    public var isCopy = false
}

/// Something wrong in a store.
public struct StoreProblem: Sendable, Equatable {
    public var topic: TopicID
    /// The first sequence of the batch, if it concerns one.
    public var sequence: UInt64?
    public var text: String
}

/// What a check found.
public struct StoreCheck: Sendable, Equatable {
    public var topics = 0
    public var batches = 0
    public var messages: UInt64 = 0
    public var bytes: UInt64 = 0
    public var publishers = 0
    /// The first `mostProblems`.
    public var problems: [StoreProblem] = []
    public var problemCount = 0

    public static let mostProblems = 1000

    mutating func add(_ topic: UInt64, _ sequence: UInt64?, _ text: String) {
        problemCount += 1
        guard problems.count < StoreCheck.mostProblems else { return }
        problems.append(StoreProblem(topic: TopicID(topic), sequence: sequence, text: text))
    }
}

extension Store {
    public func info() throws(StoreError) -> StoreInfo {
        var info = StoreInfo()
        do throws(Failure) {
            var state = fb_store_state()
            try Failure.check(fb_store_info(environment, &state))
            info.file = (state.last_page + 1) * pageSize
            info.map = state.map_size
            try reading { transaction throws(Failure) in
                info.topics = try transaction.entries(.topics)
                info.deleted = try transaction.entries(.deleted)
                info.batches = try transaction.entries(.batches)
                info.publishers = try transaction.entries(.publishers)
                info.used = try transaction.pages() * self.pageSize
                let state = try StoreState.read(transaction)
                info.generation = state.generation
                info.isClean = state.isClean
                info.isCopy = state.isCopy
            }
        } catch {
            throw .unusable("the store cannot be read: \(error.text)")
        }
        return info
    }

    /// Calls `body` with each batch of the topic `name`, from `sequence` on, until it returns false. Returns nil if the
    /// topic does not exist. A batch that cannot be read is reported to `unreadable` and passed over.
    public func dump(
        _ name: String, from sequence: UInt64 = 0, unreadable: (_ before: UInt64, _ reason: String) -> Void,
        _ body: (StoredBatch) -> Bool
    ) throws(StoreError) -> TopicSummary? {
        guard let topic = try topics().first(where: { $0.record.name == name }) else { return nil }
        var next = max(sequence, topic.first)
        while next < topic.end {
            switch read(topic.record.id, from: next, upTo: topic.end, bytes: 1 << 20) {
            case .found(let batches):
                for batch in batches where !body(batch) { return topic }
                next = batches.last?.end ?? topic.end
            case .gone(let before): next = before
            case .unreadable(let before, let reason):
                unreadable(before, reason)
                next = before
            }
        }
        return topic
    }

    /// Checks every record, every batch's CRC, and that the sequences of a topic have no gap.
    public func check() -> StoreCheck {
        var check = StoreCheck()
        do throws(Failure) {
            try reading { transaction throws(Failure) in
                try Store.scanTopics(transaction) { row, extent, publishers throws(Failure) in
                    check.topics += 1
                    check.publishers += publishers.count
                }
            }
            var walk = BatchWalk()
            while try reading({ transaction throws(Failure) in try walk.step(transaction, &check) }) {}
        } catch {
            check.add(0, nil, error.text)
        }
        return check
    }
}

/// A walk over all batches in several transactions.
private struct BatchWalk {
    /// The last batch that was checked.
    private var last: (id: UInt64, sequence: UInt64)?
    /// Where the next batch of the same topic must begin, if that is known.
    private var expected: UInt64?
    /// The extent of the topic of `last`, as found with its first batch.
    private var extent: TopicExtent?

    /// Bytes of batches that one transaction reads.
    private static let bytes = 16 << 20

    /// Checks some batches. Returns whether there are more.
    mutating func step(_ transaction: Transaction, _ check: inout StoreCheck) throws(Failure) -> Bool {
        try transaction.withCursor(.batches) { cursor throws(Failure) in
            var next = try self.start(cursor)
            var size = 0
            while let row = next {
                guard size < BatchWalk.bytes else { return true }
                size += row.size
                try self.visit(row, transaction, &check)
                next = try cursor.next()
            }
            self.finish(&check)
            return false
        }
    }

    private mutating func start(_ cursor: Cursor) throws(Failure) -> fb_store_row? {
        guard let last else { return try cursor.first() }
        let row = try cursor.seek(last.id, last.sequence)
        if let row, row.id == last.id, row.sequence == last.sequence { return try cursor.next() }
        // It has been trimmed meanwhile, and perhaps others with it.
        expected = nil
        return row
    }

    /// Checks the end of a topic. Messages may have been added since its extent was read.
    private mutating func finish(_ check: inout StoreCheck) {
        if let last, let extent, let expected, expected < extent.end {
            check.add(last.id, last.sequence, "the topic ends at \(extent.end), but its batches at \(expected)")
        }
        extent = nil
    }

    private mutating func visit(
        _ row: fb_store_row, _ transaction: Transaction, _ check: inout StoreCheck
    ) throws(Failure) {
        if let last, (row.id, row.sequence) <= (last.id, last.sequence) { throw Failure.corrupted }
        if row.id != last?.id {
            finish(&check)
            expected = nil
            if let found = try transaction.get(.extents, row.id) {
                extent = try found.bytes().withUnsafeBytes { TopicExtent($0) }
            } else if try transaction.get(.deleted, row.id) == nil {
                check.add(row.id, row.sequence, "the batch belongs to no topic")
            }
            if let extent, extent.first != row.sequence {
                check.add(row.id, row.sequence, "the topic begins at \(extent.first), but its first batch does not")
            }
        }
        last = (row.id, row.sequence)
        if let expected, expected != row.sequence {
            check.add(row.id, row.sequence, "the batch does not follow the one before, which ends at \(expected)")
        }
        check.batches += 1
        check.bytes += UInt64(row.size)
        do throws(Failure) {
            let batch = try StoredBatch(TopicID(row.id), row)
            check.messages += UInt64(batch.count)
            expected = batch.end
        } catch {
            check.add(row.id, row.sequence, "the batch is damaged: \(error.text)")
            expected = nil
        }
    }
}
