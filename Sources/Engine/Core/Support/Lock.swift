// Lock: protects state that shards share and that does not fit an atomic number. It is held for a few instructions, and
// never on the path of a message.

import Glibc

/// Not recursive. Uses the C library's mutex because the thread sanitizer understands it.
struct Lock: ~Copyable, @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    init() { pthread_mutex_init(mutex, nil) }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    borrowing func with<Result>(_ body: () -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body()
    }
}
