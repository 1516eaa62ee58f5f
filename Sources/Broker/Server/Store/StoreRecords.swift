// StoreRecords: topics and their ends, from the engine's types to the store's, some of which have the same names.

import Core
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
