// StoreWriter: the thread that writes, and group commit. What the shards submit while a commit is in progress becomes
// the next one.
//
//     submit -> queue -> [ one transaction, at most 32 MiB or one submission ] -> completion for each tag
//
// A transaction that fails with `full` fails its submissions, but their trims, ends and deletions are repeated without
// the messages. One that fails with `aborted` is repeated submission by submission. After `unknown` everything fails.

import EventLoop

/// What became of a submission.
public enum StoreOutcome: Sendable, Equatable {
    /// All its writes are durable.
    case committed
    /// None of its writes was made, or after `unknown`, nobody knows.
    case failed(StoreError)
    /// Its trims, ends and deletions are durable; none of its other writes was made.
    case partial(StoreError)
}

/// Cost of a transaction; the same for all its tags.
public struct CommitCost: Sendable, Equatable {
    /// Counts the writer's transactions, from 1.
    public var transaction: UInt64
    /// From the start of the transaction to the end of its sync, in nanoseconds.
    public var nanoseconds: UInt64
    /// Bytes of batches.
    public var bytes: Int
    public var batches: Int
    /// Submissions of all tags.
    public var submissions: Int

    public init(transaction: UInt64, nanoseconds: UInt64, bytes: Int, batches: Int, submissions: Int) {
        self.transaction = transaction
        self.nanoseconds = nanoseconds
        self.bytes = bytes
        self.batches = batches
        self.submissions = submissions
    }
}

/// The writer's thread.
public final class StoreWriter: @unchecked Sendable {
    // Unchecked because of `thread`, which is set once, before the writer is shared, and of `transactions`, which only
    // the thread uses.
    /// Receives the outcomes of a tag's submissions, in their order, on the writer's thread. It is called once for each
    /// tag in each transaction. The submissions of a tag in one transaction succeed or fail together.
    public typealias Completion = @Sendable (_ tag: Int, _ outcomes: [StoreOutcome], _ cost: CommitCost) -> Void

    private struct Submission {
        var tag: Int
        var writes: [StoreWrite]
        var size: Int
    }

    /// Submissions of one tag, as one list of writes.
    private struct Submissions {
        let tag: Int
        private(set) var count = 0
        private(set) var writes: [StoreWrite] = []
        /// The index of each topic's last batch.
        private var batches: [TopicID: Int] = [:]

        init(tag: Int) { self.tag = tag }

        mutating func add(_ more: [StoreWrite]) {
            count += 1
            for write in more {
                guard case .append(let id, let next) = write else {
                    writes.append(write)
                    continue
                }
                if let last = batches[id], case .append(_, let batch) = writes[last],
                    let joined = batch.joined(with: next)
                {
                    writes[last] = .append(id, joined)
                } else {
                    batches[id] = writes.count
                    writes.append(write)
                }
            }
        }
    }

    private struct Queue {
        var submissions: [Submission] = []
        var isUrgent = false
        var isStopping = false
        /// When the first submission arrived.
        var since: UInt64 = 0
    }

    /// Bytes of a transaction, unless a single submission is larger: 32 MiB.
    public static let transactionBytes = 32 << 20

    private let store: Store
    private let interval: UInt64
    private let completion: Completion
    private let queue = Monitor(Queue())
    private var thread: NamedThread?
    private var transactions: UInt64 = 0

    /// Starts the thread.
    /// - Parameter interval: how long submissions that are not urgent wait for others, in nanoseconds.
    public init(_ store: Store, interval: UInt64, completion: @escaping Completion) throws(SystemError) {
        self.store = store
        self.interval = interval
        self.completion = completion
        thread = try NamedThread.start("store-writer") { self.run() }
    }

    /// Queues writes, which are committed together. Any thread may call it. The queue has no limit; the caller must
    /// bound what is in flight.
    /// - Parameters:
    ///   - tag: identifies the caller, for example a shard. Submissions of one tag keep their order.
    ///   - isUrgent: whether to commit at once. Otherwise the writes wait up to `interval`.
    public func submit(_ writes: [StoreWrite], tag: Int, isUrgent: Bool) {
        let submission = Submission(tag: tag, writes: writes, size: writes.reduce(0) { $0 + $1.size })
        let wakes = queue.with { queue in
            precondition(!queue.isStopping)
            let wasIdle = queue.submissions.isEmpty
            let wasUrgent = queue.isUrgent
            if wasIdle { queue.since = Clock.monotonic() }
            queue.submissions.append(submission)
            queue.isUrgent = wasUrgent || isUrgent
            return wasIdle || isUrgent && !wasUrgent
        }
        if wakes { queue.signal() }
    }

    /// Commits what has been submitted, then ends the thread. Call it once; nothing may be submitted afterwards.
    public func stop() {
        queue.with { $0.isStopping = true }
        queue.signal()
        thread?.join()
    }

    private func run() {
        while let submissions = next() {
            var rest = submissions[...]
            while !rest.isEmpty {
                let before = store.writing.deleted.count
                write(StoreWriter.cut(&rest))
                // In proportion to what was deleted, so that the rest does not grow.
                for _ in 0...Swift.max(0, store.writing.deleted.count - before) / Store.purgedTopics { purge() }
            }
            if submissions.isEmpty { purge() }
        }
    }

    /// Waits for submissions. Empty if there are none and the store has something to purge; nil at the end.
    private func next() -> [Submission]? {
        queue.wait { queue, deadline -> [Submission]?? in
            if queue.submissions.isEmpty {
                if queue.isStopping { return .some(nil) }
                return store.needsPurge ? [] : nil
            }
            let due = queue.since + interval
            guard queue.isUrgent || queue.isStopping || Clock.monotonic() >= due else {
                deadline = due
                return nil
            }
            defer { queue = Queue(isStopping: queue.isStopping) }
            return queue.submissions
        }
    }

    /// Removes the submissions of one transaction.
    private static func cut(_ rest: inout ArraySlice<Submission>) -> [Submission] {
        var size = 0
        let taken = rest.prefix { submission in
            defer { size += submission.size }
            return size == 0 || size + submission.size <= transactionBytes
        }
        rest = rest.dropFirst(taken.count)
        return Array(taken)
    }

    private func write(_ submissions: [Submission]) {
        let began = Clock.monotonic()
        store.resumePurge()
        var written = Commit()
        var lists: [Submissions] = []
        for submission in submissions { StoreWriter.add(submission, to: &lists) }
        let outcomes = commit(lists.map(\.writes), &written)
        transactions += 1
        let cost = CommitCost(
            transaction: transactions, nanoseconds: Clock.monotonic() - began, bytes: written.bytes,
            batches: written.batches, submissions: submissions.count)
        for (list, outcome) in zip(lists, outcomes) {
            store.note(list.writes, areWritten: outcome == .committed)
            completion(list.tag, Array(repeating: outcome, count: list.count), cost)
        }
    }

    /// Joins the submissions of a tag, and consecutive batches of a topic.
    private static func add(_ submission: Submission, to lists: inout [Submissions]) {
        let known = lists.firstIndex { $0.tag == submission.tag }
        if known == nil { lists.append(Submissions(tag: submission.tag)) }
        lists[known ?? lists.count - 1].add(submission.writes)
    }

    private func commit(_ lists: [[StoreWrite]], _ written: inout Commit) -> [StoreOutcome] {
        do throws(StoreError) {
            let (commit, refused) = try store.commit(lists)
            written.bytes += commit.bytes
            written.batches += commit.batches
            return lists.indices.map { index in
                refused[index].map { StoreWriter.outcome(lists[index], $0) } ?? .committed
            }
        } catch {
            switch error {
            case .unknown: return lists.map { _ in .failed(error) }
            case .aborted where lists.count > 1: return lists.flatMap { commit([$0], &written) }
            default: return lists.map { maintain($0, after: error) }
            }
        }
    }

    /// Repeats the trims, ends and deletions of a list that failed.
    private func maintain(_ writes: [StoreWrite], after error: StoreError) -> StoreOutcome {
        let maintenance = writes.filter(\.isMaintenance)
        guard !maintenance.isEmpty else { return .failed(error) }
        do throws(StoreError) {
            _ = try store.commit(maintenance)
            return maintenance.count == writes.count ? .committed : .partial(error)
        } catch {
            return .failed(error)
        }
    }

    /// The outcome of a list of which only the maintenance was written.
    private static func outcome(_ writes: [StoreWrite], _ error: StoreError) -> StoreOutcome {
        writes.contains(where: \.isMaintenance) ? .partial(error) : .failed(error)
    }

    /// One step. A failure is not reported: the purge pauses, and a failed write or sync fails the next commit.
    private func purge() {
        if store.needsPurge { try? store.purgeSome() }
    }
}
