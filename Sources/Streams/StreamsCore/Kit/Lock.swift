// Lock: protects the fields of one object for a few instructions. No outside code (a subscriber, a closure, or the
// release of what they hold) runs while it is held.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Not recursive: locking it twice on one thread deadlocks, which the first test reveals.
package struct Lock: ~Copyable, @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    package init() { pthread_mutex_init(mutex, nil) }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    @inline(__always) package borrowing func with<Result>(_ body: () throws -> Result) rethrows -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }

    /// `lock` and `unlock` are for functions that unlock at different points.
    @inline(__always) package borrowing func lock() { pthread_mutex_lock(mutex) }
    @inline(__always) package borrowing func unlock() { pthread_mutex_unlock(mutex) }
}
