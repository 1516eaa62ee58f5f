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
            try run.finish(transaction)
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

extension Store {
    /// Notes whether the messages of a list are in the store. Only the writer's thread may call it.
    func note(_ writes: [StoreWrite], areWritten: Bool) {
        if areWritten && writing.unwritten.isEmpty { return }
        for write in writes {
            switch write {
            case .append(let id, _) where !areWritten: writing.unwritten.insert(id)
            case .append(let id, _), .delete(let id): writing.unwritten.remove(id)
            case .create, .trim, .end, .publishers, .purge: break
            }
        }
    }

    /// Whether messages of relaxed topics have not been written.
    func lacksDelivered(_ transaction: Transaction) throws(Failure) -> Bool {
        for id in writing.unwritten {
            guard let found = try transaction.get(.topics, id.value) else { continue }
            guard let row = try found.bytes().withUnsafeBytes({ TopicRow(id, $0) }) else { throw Failure.corrupted }
            if row.record.isRelaxed { return true }
        }
        return false
    }
}

/// The state of one transaction.
private struct CommitRun {
    /// Where a topic's next batch must begin.
    private enum Tail: Equatable {
        case missing
        case anywhere
        case at(UInt64)
    }

    let generation: UInt64
    var commit = Commit()
    var isGrowing = false
    var deleted: [TopicID] = []
    var trims: [TopicID: UInt64] = [:]
    /// The extents of topics after the writes so far; nil if there is no such topic.
    private var extents: [TopicID: TopicExtent?] = [:]
    private var changed: Set<TopicID> = []

    init(generation: UInt64) { self.generation = generation }

    /// Why a list cannot be written; nil if it can.
    mutating func objection(to writes: [StoreWrite], _ transaction: Transaction) throws(Failure) -> String? {
        var tails: [TopicID: Tail] = [:]
        for write in writes {
            switch write {
            case .create(let record):
                let tail = try tail(of: record.id, tails, transaction)
                guard tail == .missing else { continue }
                let deleted = try transaction.get(.deleted, record.id.value) != nil
                if deleted || tails[record.id] != nil {
                    return "the topic id is that of a deleted topic"
                }
                tails[record.id] = .anywhere
            case .append(let id, let source):
                let tail = try tail(of: id, tails, transaction)
                if tail == .missing { return "the topic is not stored" }
                guard tail == .anywhere || tail == .at(source.first) else {
                    return "earlier messages of the topic were not stored"
                }
                tails[id] = .at(source.first + UInt64(source.count))
            case .delete(let id): tails[id] = .missing
            case .trim, .end, .purge, .publishers: break
            }
        }
        return nil
    }

    /// - Parameter tails: those that the list has changed.
    private mutating func tail(
        of id: TopicID, _ tails: [TopicID: Tail], _ transaction: Transaction
    ) throws(Failure) -> Tail {
        if let tail = tails[id] { return tail }
        guard let extent = try extent(of: id, transaction) else { return .missing }
        return extent.isEmpty ? .anywhere : .at(extent.end)
    }

    private mutating func extent(of id: TopicID, _ transaction: Transaction) throws(Failure) -> TopicExtent? {
        if let extent = extents[id] { return extent }
        var extent: TopicExtent?
        if let row = try transaction.get(.extents, id.value) {
            extent = try row.bytes().withUnsafeBytes { TopicExtent($0) }
            if extent == nil { throw Failure.corrupted }
        }
        extents.updateValue(extent, forKey: id)
        return extent
    }

    private mutating func change(_ id: TopicID, _ extent: TopicExtent) {
        extents[id] = extent
        changed.insert(id)
    }

    mutating func apply(_ write: StoreWrite, _ transaction: Transaction) throws(Failure) {
        isGrowing = isGrowing || write.isGrowing
        switch write {
        case .create(let record):
            let row = TopicRow(record, generation: generation)
            try transaction.put(.topics, record.id.value, row.encoded)
            if try extent(of: record.id, transaction) == nil { change(record.id, TopicExtent()) }
        case .append(let id, let source): try append(id, source, transaction)
        case .trim(let id, let sequence): try trim(id, before: sequence, transaction)
        case .end(let id, let end):
            guard let found = try transaction.get(.topics, id.value) else { return }
            guard var row = try found.bytes().withUnsafeBytes({ TopicRow(id, $0) }) else { throw Failure.corrupted }
            row.record.end = end
            try transaction.put(.topics, id.value, row.encoded)
        case .publishers(let id, let records, let removed):
            guard try extent(of: id, transaction) != nil else { return }
            for key in removed { try transaction.delete(.publishers, id.value, rest: key) }
            for record in records { try transaction.put(.publishers, id.value, rest: record.key, record.encoded) }
        case .delete(let id):
            guard try extent(of: id, transaction) != nil else { return }
            try transaction.delete(.topics, id.value)
            try transaction.delete(.extents, id.value)
            try transaction.put(.deleted, id.value, [])
            extents.updateValue(nil, forKey: id)
            changed.remove(id)
        case .purge(let id):
            if try transaction.get(.deleted, id.value) != nil { deleted.append(id) }
        }
    }

    /// Writes the extents, after all writes.
    func finish(_ transaction: Transaction) throws(Failure) {
        for id in changed {
            if let extent = extents[id] ?? nil { try transaction.put(.extents, id.value, extent.encoded) }
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
        guard var extent = try extent(of: id, transaction) else { throw Failure.corrupted }
        extent.append(source.first, header)
        change(id, extent)
    }

    private mutating func trim(_ id: TopicID, before sequence: UInt64, _ transaction: Transaction) throws(Failure) {
        guard var extent = try extent(of: id, transaction), extent.first < sequence else { return }
        let trimmed = try Store.trim(id, before: sequence, transaction)
        guard let first = trimmed.first else { return }
        extent.first = first
        extent.chargedBefore = trimmed.header?.chargedBefore ?? extent.chargedBefore
        change(id, extent)
        if !trimmed.isDone { trims[id] = sequence }
    }
}
