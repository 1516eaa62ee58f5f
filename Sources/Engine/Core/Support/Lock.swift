// Lock: for what shards share and no atomic number can hold. Held for a few instructions; never on the path of a
// message.

import Glibc

/// Not recursive. Of the C library, as the thread sanitizer sees what it orders.
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
