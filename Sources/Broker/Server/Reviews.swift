// Reviews: how many streams and connections ended because of new permissions, over all shards. Each shard reviews its
// own streams at its own pace.

import Core
import Glibc

/// The totals of a review, to which any thread may add.
final class Reviews: @unchecked Sendable {
    // Unchecked because the mutex guards every field.
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private var access: AccessTable?
    /// Shards that have not reported yet.
    private var awaited: Set<Int> = []
    private var streams = 0
    private var connections = 0

    init() { pthread_mutex_init(lock, nil) }

    deinit {
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }

    /// Starts a review of new permissions. Counts of an unfinished earlier review are included.
    func begin(_ access: AccessTable, shards: Int) {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        self.access = access
        awaited = Set(0..<shards)
    }

    /// Adds the result of a shard's review.
    /// - Returns: the totals, once the last shard has reported.
    func add(_ review: Review, from shard: Int) -> [LogField]? {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        streams += review.streams
        connections += review.connections
        guard review.access === access, awaited.remove(shard) != nil, awaited.isEmpty else { return nil }
        defer { (access, streams, connections) = (nil, 0, 0) }
        return [("streams-ended", streams), ("connections-ended", connections)]
    }
}
