// StoreReaders: threads that read for the shards, so that no shard waits for the disk.

import EventLoop

/// Threads with a common, bounded queue of read requests.
public final class StoreReaders: @unchecked Sendable {
    // Unchecked because of `threads`, which is set once, before the readers are shared.
    private struct Queue {
        var jobs: [(@Sendable (Store) -> Void)?] = []
        /// The index of the first job that waits.
        var head = 0
        var isStopping = false

        var count: Int { jobs.count - head }

        mutating func popFirst() -> (@Sendable (Store) -> Void)? {
            guard head < jobs.count else { return nil }
            let job = jobs[head].take()
            head += 1
            // Moves each job at most once on average.
            if head > jobs.count / 2 {
                jobs.removeFirst(head)
                head = 0
            }
            return job
        }
    }

    private let store: Store
    private let limit: Int
    private let queue = Monitor(Queue())
    private var threads: [NamedThread] = []

    /// - Parameters:
    ///   - count: the number of threads.
    ///   - limit: maximum number of requests that wait.
    public init(_ store: Store, count: Int = 2, limit: Int = 1024) throws(SystemError) {
        self.store = store
        self.limit = limit
        for index in 0..<count { threads.append(try NamedThread.start("store-reader-\(index)") { self.run() }) }
    }

    /// Queues a read. See `Store.read`. Any thread may call it.
    /// - Parameter completion: is called on a reader's thread.
    /// - Returns: false if the queue is full.
    public func read(
        _ id: TopicID, from sequence: UInt64, upTo: UInt64, bytes: Int,
        completion: @escaping @Sendable (StoreRead) -> Void
    ) -> Bool {
        submit { completion($0.read(id, from: sequence, upTo: upTo, bytes: bytes)) }
    }

    /// Queues a search by time. See `Store.first`.
    public func first(
        _ id: TopicID, atOrAfter timestamp: Int64, completion: @escaping @Sendable (StorePosition) -> Void
    ) -> Bool {
        submit { completion($0.first(id, atOrAfter: timestamp)) }
    }

    /// Serves the requests that wait, then ends the threads. Call it once.
    public func stop() {
        queue.with { $0.isStopping = true }
        queue.signalAll()
        for thread in threads { thread.join() }
    }

    /// Queues a job that reads. See `read`.
    public func submit(_ job: @escaping @Sendable (Store) -> Void) -> Bool {
        let isQueued = queue.with { queue in
            guard queue.count < limit, !queue.isStopping else { return false }
            queue.jobs.append(job)
            return true
        }
        if isQueued { queue.signal() }
        return isQueued
    }

    private func run() {
        while let job = next() { job(store) }
    }

    /// Waits for a job; nil at the end.
    private func next() -> (@Sendable (Store) -> Void)? {
        queue.wait { queue, _ -> (@Sendable (Store) -> Void)?? in
            if let job = queue.popFirst() { return job }
            return queue.isStopping ? .some(nil) : nil
        }
    }
}
