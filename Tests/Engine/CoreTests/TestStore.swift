// TestStore: the store of the harness's brokers. This store commits, refuses and answers when a test says so.

import Replay

@testable import Core

struct TestStore {
    /// By shard: messages that have not been committed.
    fileprivate(set) var appended: [[AppendedMessages]]
    /// By shard: ends and deletions of topics that have not been committed, by epoch.
    fileprivate var ends: [[UInt64]]
    /// By epoch and sequence: what has been committed.
    fileprivate var history: [UInt64: [UInt64: StoredMessage]] = [:]
    /// Messages before this sequence need not be kept.
    private(set) var trimmed: UInt64 = 1
    fileprivate(set) var reads: [(shard: Int, request: HistoryRequest)] = []
    fileprivate(set) var searches: [(shard: Int, search: TimeSearch)] = []
    /// The topics that the store was asked to keep, and those that it was asked to delete and to purge.
    private(set) var rows: [StoredTopicRow] = []
    private(set) var deleted: [StoreID] = []
    private(set) var publishers: [PublisherChanges] = []
    private(set) var purged: [StoreID] = []

    init(shards count: Int) {
        appended = Array(repeating: [], count: count)
        ends = Array(repeating: [], count: count)
    }

    mutating func take(_ request: StoreRequest, from shard: Int) {
        switch request {
        case .keep(let row): rows.append(row)
        case .publishers(_, let changes): publishers.append(changes)
        case .append(let messages): appended[shard].append(messages)
        case .read(let request): reads.append((shard, request))
        case .search(let search): searches.append((shard, search))
        case .trim(_, let end): trimmed = end.value
        case .end(_, let epoch, _): ends[shard].append(epoch)
        case .delete(let id, let epoch):
            ends[shard].append(epoch)
            deleted.append(id)
        case .purge(let id): purged.append(id)
        }
    }
}

extension TestBroker {
    /// A broker that stores all topics.
    static func storing(_ shards: Int = 1, relaxed: Bool = false) throws -> TestBroker {
        var limits = Limits()
        let all = [try TopicPattern(parsing: ">")]
        if relaxed { limits.relaxed = all } else { limits.durable = all }
        return TestBroker(shards: shards, limits: limits)
    }

    /// Reads that shards have requested.
    var reads: [(shard: Int, request: HistoryRequest)] { store.reads }
    var appended: [[AppendedMessages]] { store.appended }
    var trimmed: UInt64 { store.trimmed }

    /// Commits the messages before `end`; by default all that the store has, and the ends of topics. A shard receives
    /// all reports at once, as from a store that writes them in one transaction.
    func commit(upTo end: UInt64 = .max) {
        for (index, batches) in store.appended.enumerated() {
            var reports: [StoreReport] = []
            for batch in batches {
                for (place, message) in batch.messages.enumerated() {
                    store.history[batch.topic, default: [:]][batch.first.value + UInt64(place)] = message
                }
                let upTo = min(batch.end, .init(end))
                reports.append(.committed(topic: batch.topic, attempt: batch.attempt, upTo: upTo))
            }
            store.appended[index] = batches.filter { $0.end > .init(end) }
            if store.appended[index].isEmpty {
                reports += store.ends[index].map { .ended(topic: $0) }
                store.ends[index] = []
            }
            shards[index].stored(reports, now: now)
        }
        run()
    }

    /// Refuses the messages that the store has not committed.
    func refuse(_ failure: StoreFailure) {
        for (index, batches) in store.appended.enumerated() {
            store.appended[index] = []
            shards[index].stored(
                batches.map { .refused(topic: $0.topic, attempt: $0.attempt, failure) }, now: now)
        }
        run()
    }

    /// Answers the oldest read, with at most `most` messages.
    func bring(most: Int = .max) {
        let (shard, request) = store.reads.removeFirst()
        let end = min(request.end.value, request.first.value.addingClamped(UInt64(most)))
        let messages = (request.first.value..<end).map { store.history[request.topic]![$0]! }
        let found = StoredMessages(first: request.first, messages, budget: memory)
        shards[shard].answer(request, .found(found), now: now)
        run()
    }

    /// The store answers the oldest search.
    func find(_ first: UInt64?) {
        let (shard, search) = store.searches.removeFirst()
        shards[shard].found(first.map { SequenceNumber($0) }, search, now: now)
        run()
    }

    func answerLast() {
        store.reads.insert(store.reads.removeLast(), at: 0)
        bring()
    }

    /// Answers the oldest read, for which the store has nothing.
    func miss(_ answer: (HistoryRequest) -> HistoryAnswer) {
        let (shard, request) = store.reads.removeFirst()
        shards[shard].answer(request, answer(request), now: now)
        run()
    }
}
