// StoreService: the broker's store, with the threads that write and read for the shards.
//
//     shard ──submit──▶ StoreWriter ──outcomes──▶ inbox of the shard
//           ──read────▶ StoreReaders ──answer───▶

import Core
import EventLoop
import Replay
import Store
import Synchronization

final class StoreService: Sendable {
    /// Bytes that one read returns, unless the first batch has more.
    private static let readBytes = 64 << 10
    /// Bytes of one batch, unless its only message has more.
    static let batchBytes = 64 << 10

    private let store: Store
    private let writer: StoreWriter
    private let readers: StoreReaders
    private let inboxes: [Inbox<InboxItem>]
    private let memory: MemoryBudget
    private let log: Log
    private let statistics: StoreStatistics

    static func open(_ options: StoreOptions) throws(StartError) -> Store {
        do throws(StoreError) {
            return try Store.open(options)
        } catch {
            throw StartError(
                store: error,
                cause: SystemError("cannot open the store in \(options.directory)", cause: error.description))
        }
    }

    /// Starts the threads; `stop` ends them and closes the store. If this throws, the store stays open.
    init(
        _ store: Store, interval: UInt64, inboxes: [Inbox<InboxItem>], memory: MemoryBudget, log: Log
    ) throws(SystemError) {
        self.store = store
        let began = Clock.monotonic()
        var topics = 0
        try StoreService.forEachTopic(of: store) { _ in topics += 1 }
        StoreService.report(store, topics: topics, since: began, log)
        let statistics = StoreStatistics()
        self.statistics = statistics
        writer = try StoreWriter(store, interval: interval) { shard, outcomes, cost in
            statistics.note(outcomes, cost, now: Clock.monotonic(), log: log)
            inboxes[shard].push(.stored(outcomes))
        }
        // The shards bound the number of their reads and searches.
        readers = try StoreReaders(store, limit: .max)
        self.inboxes = inboxes
        self.memory = memory
        self.log = log
    }

    /// Calls `body` for each topic of a shard that the store has from earlier runs.
    func forEachTopic(of shard: Int, _ body: (StoredTopic) -> Void) throws(SystemError) {
        try StoreService.forEachTopic(of: store) { found in
            if Shard.owner(of: found.record.name, among: inboxes.count) == shard { body(StoredTopic(found)) }
        }
    }

    func submit(_ writes: [StoreWrite], from shard: Int, isUrgent: Bool) {
        writer.submit(writes, tag: shard, isUrgent: isUrgent)
    }

    /// Reads messages; the answer goes to the shard's inbox.
    func read(_ request: HistoryRequest, for shard: Int) {
        let isQueued = readers.read(
            TopicID(request.id.value), from: request.first.value, upTo: request.end.value,
            bytes: StoreService.readBytes
        ) { [inboxes, memory, log, statistics] result in
            statistics.noteRead(result)
            inboxes[shard].push(.history(request, StoreService.answer(to: request, result, memory, log)))
        }
        precondition(isQueued)
    }

    /// Searches by time; the result goes to the shard's inbox.
    func find(_ search: TimeSearch, for shard: Int) {
        let isQueued = readers.submit { [inboxes, memory] store in
            inboxes[shard].push(.found(StoreService.first(search, store, memory), search))
        }
        precondition(isQueued)
    }

    private static func first(_ search: TimeSearch, _ store: Store, _ memory: MemoryBudget) -> SequenceNumber? {
        let id = TopicID(search.id.value)
        guard case .sequence(let first) = store.first(id, atOrAfter: search.time) else { return nil }
        // Earlier messages of the same batch may be older.
        guard case .found(let batches) = store.read(id, from: first, upTo: first + 1, bytes: 1),
            let batch = batches.first
        else { return SequenceNumber(first) }
        let messages = withExtendedLifetime(batch) {
            StoredMessages(first: SequenceNumber(batch.first), [(batch.count, batch.body.bytes)], budget: memory)
        }
        return messages?.first(atOrAfter: search.time) ?? SequenceNumber(first)
    }

    private static func answer(
        to request: HistoryRequest, _ result: StoreRead, _ memory: MemoryBudget, _ log: Log
    ) -> HistoryAnswer {
        switch result {
        case .found(let batches):
            guard let first = batches.first else { return .unreadable(before: request.end) }
            let bodies = batches.map { (count: $0.count, bytes: $0.body.bytes) }
            let messages = withExtendedLifetime(batches) {
                StoredMessages(first: SequenceNumber(first.first), bodies, budget: memory)
            }
            return messages.map { .found($0) } ?? .unreadable(before: request.end)
        case .gone(let end): return .gone(before: SequenceNumber(end))
        case .unreadable(let end, let reason):
            log.write(
                .error, "stored messages are unreadable",
                [("from", request.first.value), ("before", end), ("cause", reason)])
            return .unreadable(before: SequenceNumber(end))
        }
    }

    private static func report(_ store: Store, topics: Int, since began: UInt64, _ log: Log) {
        var fields: [LogField] = [
            ("directory", store.options.directory), ("topics", topics), ("bytes", store.used),
            ("limit", store.options.bytes), ("after", store.startedAfterCrash ? "unclean shutdown" : "clean shutdown"),
        ]
        if store.isCopy { fields.append(("copy", "first opening; all topics have new epochs")) }
        log.write(.info, "store opened", fields + [("ms", (Clock.monotonic() - began) / 1_000_000)])
    }

    /// - Parameter limit: on uncommitted messages, in bytes.
    func snapshot(_ health: StoreHealth, limit: Int, now: UInt64) -> StoreSnapshot {
        var snapshot = StoreSnapshot(
            used: store.used, limit: store.options.bytes, uncommitted: health.uncommitted, uncommittedLimit: limit,
            hasFailed: health.hasFailed, isFull: health.isFull(now: now))
        statistics.fill(&snapshot)
        return snapshot
    }

    /// Writes what was submitted, ends the threads and closes the store. Called once, after the shards have ended.
    func stop() {
        writer.stop()
        readers.stop()
        store.close()
    }

    private static func forEachTopic(of store: Store, _ body: (TopicSummary) -> Void) throws(SystemError) {
        do throws(StoreError) {
            try store.forEachTopic(body)
        } catch {
            throw SystemError("cannot open the store in \(store.options.directory)", cause: error.description)
        }
    }
}

/// What the store will report to a shard: a list for each submission in flight, oldest first.
struct StoreReports {
    private var inFlight: [[StoreReport]] = []

    mutating func append(_ reports: [StoreReport]) { inFlight.append(reports) }

    /// The reports of the oldest submissions, given what became of them.
    mutating func take(_ outcomes: [StoreOutcome]) -> [StoreReport] {
        let due = zip(inFlight, outcomes).flatMap { reports, outcome -> [StoreReport] in
            guard let failure = outcome.failure else { return reports }
            return reports.map { report in
                // The ends and deletions were written.
                if case .partial = outcome, case .ended = report { return report }
                return StoreReports.refused(report, failure)
            }
        }
        inFlight.removeFirst(outcomes.count)
        return due
    }

    private static func refused(_ report: StoreReport, _ failure: StoreFailure) -> StoreReport {
        switch report {
        case .committed(let topic, let attempt, _): .refused(topic: topic, attempt: attempt, failure)
        case .ended(let topic): .endRefused(topic: topic, failure)
        case .refused, .endRefused: report
        }
    }
}

extension StoreOutcome {
    /// The error, if there was one.
    var error: StoreError? {
        switch self {
        case .committed: nil
        case .failed(let error), .partial(let error): error
        }
    }

    /// Why messages were not written; nil if they were.
    var failure: StoreFailure? {
        switch self {
        case .committed: nil
        case .failed(.full), .partial(.full): .full
        case .failed(.unknown), .partial(.unknown): .unknown
        case .failed, .partial: .aborted
        }
    }
}

/// Messages of a topic, as the store writes them.
struct MessageBatchSource: BatchSource {
    let body: MessageBody

    var first: UInt64 { body.first.value }
    var count: Int { body.count }
    var bodySize: Int { body.size }
    var firstTimestamp: Int64 { body.timestamps.first }
    var lastTimestamp: Int64 { body.timestamps.last }
    var chargedBefore: UInt64 { body.charged.before }
    var chargedAfter: UInt64 { body.charged.after }
    func writeBody(to target: UnsafeMutableRawBufferPointer) { body.write(to: target) }

    func joined(with next: any BatchSource) -> (any BatchSource)? {
        guard let next = next as? MessageBatchSource else { return nil }
        return body.joined(with: next.body, most: StoreService.batchBytes).map { MessageBatchSource(body: $0) }
    }
}
