// StoreCommit: lists of writes as one transaction. Each list is one submission of a shard, and is written wholly, or
// only its trims, ends and deletions.
//
// A batch that does not continue its topic is refused, with its list. This happens after a failed commit: the shard has
// submitted the next messages before it learned of the failure. It will take their sequences again.

import CLMDB
import CStoreIO

extension Store {
    /// Writes everything in one synchronous transaction, or nothing. Only the writer's thread may call it.
    public func commit(_ writes: [StoreWrite]) throws(StoreError) -> Commit {
        try commit([writes], isStrict: true).commit
    }

    /// Writes the lists in one transaction. Refused lists are not written, except for their maintenance.
    /// - Parameter isStrict: whether a refused list fails the transaction.
    func commit(
        _ lists: [[StoreWrite]], isStrict: Bool = false
    ) throws(StoreError) -> (commit: Commit, refused: [Int: StoreError]) {
        var run = CommitRun(generation: generation)
        var refused: [Int: StoreError] = [:]
        try transact { transaction throws(Failure) in
            for (index, writes) in lists.enumerated() {
                if let reason = try run.objection(to: writes, transaction) {
                    refused[index] = .aborted(reason)
                    for write in writes where write.isMaintenance { try run.apply(write, transaction) }
                } else {
                    for write in writes { try run.apply(write, transaction) }
                }
            }
            if isStrict, !refused.isEmpty { throw Failure(MDB_BAD_TXN) }
            return run.isGrowing
        } reason: {
            isStrict ? refused.first?.value : nil
        }
        run.commit.used = used
        writing.deleted += run.deleted
        writing.trims.merge(run.trims) { $1 }
        return (run.commit, refused)
    }
}

/// The state of one transaction.
private struct CommitRun {
    /// Where a topic's next batch must begin.
    enum Tail: Equatable {
        case missing
        case anywhere
        case at(UInt64)
    }

    let generation: UInt64
    var commit = Commit()
    var isGrowing = false
    var deleted: [TopicID] = []
    var trims: [TopicID: UInt64] = [:]
    private var tails: [TopicID: Tail] = [:]

    init(generation: UInt64) { self.generation = generation }

    /// Why a list cannot be written; nil if it can. The tails are those after the list, if it is written.
    mutating func objection(to writes: [StoreWrite], _ transaction: Transaction) throws(Failure) -> String? {
        let before = tails
        for write in writes {
            switch write {
            case .create(let record):
                if try tail(of: record.id, transaction) == .missing { tails[record.id] = .anywhere }
            case .append(let id, let source):
                let tail = try tail(of: id, transaction)
                guard tail == .anywhere || tail == .at(source.first) else {
                    tails = before
                    return tail == .missing
                        ? "the topic is not stored" : "earlier messages of the topic were not stored"
                }
                tails[id] = .at(source.first + UInt64(source.count))
            case .delete(let id): tails[id] = .missing
            case .trim, .end, .publishers: break
            }
        }
        return nil
    }

    private mutating func tail(of id: TopicID, _ transaction: Transaction) throws(Failure) -> Tail {
        if let tail = tails[id] { return tail }
        var tail = Tail.missing
        if try CommitRun.row(id, transaction) != nil {
            let extent = try transaction.withCursor(.batches) { cursor throws(Failure) in
                try cursor.last(of: id.value).map { row throws(Failure) in
                    row.sequence + UInt64(try row.header()?.count ?? 1)
                }
            }
            tail = extent.map { .at($0) } ?? .anywhere
        }
        tails[id] = tail
        return tail
    }

    /// Nil if the topic does not exist or has been deleted.
    private static func row(_ id: TopicID, _ transaction: Transaction) throws(Failure) -> TopicRow? {
        guard let found = try transaction.get(.topics, id.value) else { return nil }
        guard let row = try found.bytes().withUnsafeBytes({ TopicRow(id, $0) }) else { throw Failure.corrupted }
        return row.isDeleted ? nil : row
    }

    mutating func apply(_ write: StoreWrite, _ transaction: Transaction) throws(Failure) {
        isGrowing = isGrowing || write.isGrowing
        switch write {
        case .create(let record):
            let row = TopicRow(record, generation: generation)
            try transaction.put(.topics, record.id.value, row.encoded)
        case .append(let id, let source): try append(id, source, transaction)
        case .trim(let id, let sequence):
            if try !Store.trim(id, before: sequence, transaction) { trims[id] = sequence }
        case .end(let id, let end):
            guard var row = try CommitRun.row(id, transaction) else { return }
            row.record.end = end
            try transaction.put(.topics, id.value, row.encoded)
        case .publishers(let id, let records, let removed):
            guard try CommitRun.row(id, transaction) != nil else { return }
            for key in removed { try transaction.delete(.publishers, id.value, rest: key) }
            for record in records { try transaction.put(.publishers, id.value, rest: record.key, record.encoded) }
        case .delete(let id):
            guard var row = try CommitRun.row(id, transaction) else { return }
            row.isDeleted = true
            try transaction.put(.topics, id.value, row.encoded)
            deleted.append(id)
        }
    }

    private mutating func append(
        _ id: TopicID, _ source: any BatchSource, _ transaction: Transaction
    ) throws(Failure) {
        let header = BatchHeader(source)
        let size = BatchHeader.size + source.bodySize
        let value = try transaction.reserve(.batches, id.value, source.first, size)
        source.writeBody(to: UnsafeMutableRawBufferPointer(rebasing: value[BatchHeader.size...]))
        header.write(to: value, topic: id, first: source.first)
        commit.bytes += size
        commit.batches += 1
    }
}
