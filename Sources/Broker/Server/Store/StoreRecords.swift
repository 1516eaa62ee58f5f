// StoreRecords: topics and their ends, from the engine's types to the store's and back. Some types have the same name
// in both modules.

import Core
import Replay
import Store

extension TopicRecord {
    init(_ row: StoredTopicRow, createdAt: Int64) {
        self.init(
            id: TopicID(row.id.value), name: row.name, epoch: row.epoch, isRelaxed: row.isRelaxed,
            createdAt: createdAt, former: row.former.map { .init(epoch: $0.epoch, end: $0.end.value) })
        switch row.end {
        case nil: end = nil
        case .completed: end = .completed
        case .failed(let reason): end = .failed(reason)
        }
    }
}

extension StoredTopic {
    init(_ found: TopicSummary) {
        let record = found.record
        let end: Core.StoredEnd? =
            switch record.end {
            case nil: nil
            case .completed: .completed
            case .failed(let reason): .failed(reason)
            }
        let row = StoredTopicRow(
            id: StoreID(record.id.value), name: record.name, epoch: record.epoch, isRelaxed: record.isRelaxed, end: end,
            former: record.former.map { Core.FormerEpoch(epoch: $0.epoch, end: SequenceNumber($0.end)) })
        self.init(
            row: row,
            messages: SequenceRange(lower: SequenceNumber(found.first), upper: SequenceNumber(found.end)),
            charged: found.chargedBefore...found.charged, lastTimestamp: found.lastTimestamp,
            publishers: found.publishers.map {
                StoredPublisher(key: $0.key, number: $0.number, sequence: $0.sequence, usedAt: $0.usedAt)
            },
            mayHaveLost: record.isRelaxed && found.isStale)
    }
}

extension StoreWrite {
    static func publishers(_ id: StoreID, _ changes: PublisherChanges) -> StoreWrite {
        .publishers(
            TopicID(id.value),
            changes.changed.map {
                PublisherRecord(key: $0.key, number: $0.number, sequence: $0.sequence, usedAt: $0.usedAt)
            }, removed: changes.removed)
    }

    static func end(_ id: StoreID, _ end: Core.StoredEnd) -> StoreWrite {
        switch end {
        case .completed: .end(TopicID(id.value), .completed)
        case .failed(let reason): .end(TopicID(id.value), .failed(reason))
        }
    }
}
