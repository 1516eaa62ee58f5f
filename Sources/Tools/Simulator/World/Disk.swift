// Disk: what a store has written. It survives a crash of the broker. Like the broker's store, it writes the requests of
// one submission together, or only those that make room.

import Core
import Replay

struct Disk {
    struct Topic {
        var row: StoredTopicRow
        /// The generation of the store in which the row was written.
        var generation: Int
        /// The messages of which something may be kept, and the total charge before the first and the last.
        var first = SequenceNumber.first
        var end = SequenceNumber.first
        var charged: ClosedRange<UInt64> = 0...0
        var lastTimestamp: Int64 = 0
        var publishers: [[UInt8]: StoredPublisher] = [:]

        var isEmpty: Bool { end == .first }
    }

    private(set) var topics: [StoreID: Topic] = [:]
    /// Also those of deleted topics, until they are purged.
    private(set) var messages: [StoreID: [SequenceNumber: StoredMessage]] = [:]
    private var deleted: Set<StoreID> = []
    /// Counts the crashes.
    private var generation = 0

    /// Whether the requests do not follow what is written. This happens after a failure: the shard has submitted the
    /// next messages before it learned of that.
    func objects(to requests: [StoreRequest]) -> Bool {
        var ends: [StoreID: SequenceNumber?] = [:]
        for (id, topic) in topics { ends[id] = topic.isEmpty ? .some(nil) : topic.end }
        for request in requests {
            switch request {
            case .keep(let row) where ends[row.id] == nil:
                if deleted.contains(row.id) { return true }
                ends[row.id] = .some(nil)
            case .append(let messages):
                guard let end = ends[messages.id], end.map({ $0 == messages.first }) ?? true else { return true }
                ends[messages.id] = messages.end
            case .delete(let id, _): ends[id] = nil
            default: break
            }
        }
        return false
    }

    mutating func write(_ requests: [StoreRequest]) {
        for request in requests { write(request) }
    }

    /// Writes only trims, ends and deletions. Returns whether there are any.
    mutating func maintain(_ requests: [StoreRequest]) -> Bool {
        let maintenance = requests.filter {
            switch $0 {
            case .trim, .end, .delete, .purge: true
            case .keep(let row): row.end != nil
            case .append, .publishers, .read, .search: false
            }
        }
        write(maintenance)
        return !maintenance.isEmpty
    }

    private mutating func write(_ request: StoreRequest) {
        switch request {
        case .keep(let row): topics[row.id, default: Topic(row: row, generation: generation)].keep(row, generation)
        case .append(let appended): append(appended)
        case .publishers(let id, let changes): topics[id]?.save(changes)
        case .trim(let id, let end): trim(id, before: end)
        case .end(let id, _, let end): topics[id]?.row.end = end
        case .delete(let id, _):
            if topics.removeValue(forKey: id) != nil { deleted.insert(id) }
        case .purge(let id): messages[id] = nil
        case .read, .search: break
        }
    }

    private mutating func append(_ appended: AppendedMessages) {
        let added = appended.messages
        for (index, message) in added.enumerated() {
            messages[appended.id, default: [:]][appended.first.advanced(by: index)] = message
        }
        topics[appended.id]?.append(added, from: appended.first)
    }

    /// The newest message always stays.
    private mutating func trim(_ id: StoreID, before end: SequenceNumber) {
        guard let topic = topics[id], !topic.isEmpty else { return }
        let first = Swift.min(end, topic.end.advanced(by: -1))
        guard first > topic.first, let message = messages[id]?[first] else { return }
        for sequence in topic.first.value..<first.value { messages[id]?[SequenceNumber(sequence)] = nil }
        topics[id]?.first = first
        topics[id]?.charged = message.chargedBefore...topic.charged.upperBound
    }

    /// The store is opened again. Returns the topics that it has.
    /// - Parameter isClean: whether it was closed with everything written.
    mutating func reopen(isClean: Bool) -> [StoredTopic] {
        if !isClean { generation += 1 }
        for id in deleted { messages[id] = nil }
        return topics.values.sorted { $0.row.id.value < $1.row.id.value }.map { topic in
            StoredTopic(
                row: topic.row, messages: SequenceRange(lower: topic.first, upper: topic.end), charged: topic.charged,
                lastTimestamp: topic.lastTimestamp,
                publishers: topic.publishers.values.sorted { $0.key.lexicographicallyPrecedes($1.key) },
                mayHaveLost: topic.row.isRelaxed && topic.generation < generation)
        }
    }
}

extension Disk.Topic {
    fileprivate mutating func keep(_ row: StoredTopicRow, _ generation: Int) {
        self.row = row
        self.generation = generation
    }

    fileprivate mutating func append(_ messages: [StoredMessage], from start: SequenceNumber) {
        guard let first = messages.first, let last = messages.last else { return }
        if isEmpty {
            self.first = start
            charged = first.chargedBefore...last.chargedAfter
        } else {
            charged = charged.lowerBound...last.chargedAfter
        }
        end = start.advanced(by: messages.count)
        lastTimestamp = last.timestamp
    }

    fileprivate mutating func save(_ changes: PublisherChanges) {
        for key in changes.removed { publishers[key] = nil }
        for publisher in changes.changed { publishers[publisher.key] = publisher }
    }
}
