// Reviews: what new permissions ended on all shards together. Each shard looks at what is open in its own time.

import Core
import Glibc

/// Any thread may add to it.
final class Reviews: @unchecked Sendable {
    // Unchecked because the mutex guards every field.
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private var access: AccessTable?
    /// Shards that are yet to tell.
    private var awaited: Set<Int> = []
    private var streams = 0
    private var connections = 0

    init() { pthread_mutex_init(lock, nil) }

    deinit {
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }

    /// Shards are about to be told of other permissions. What is not known of earlier ones is told with these.
    func begin(_ access: AccessTable, shards: Int) {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        self.access = access
        awaited = Set(0..<shards)
    }

    /// A shard has looked at all that is open on it.
    /// - Returns: what ended on all of them, once the last one has told.
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
