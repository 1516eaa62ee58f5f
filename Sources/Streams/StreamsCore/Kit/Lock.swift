// Lock: guards the fields of one object for the time of a few instructions. Nothing that belongs to others – a
// subscriber, a closure, a release of what they hold – is ever called while it is held.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Not recursive: taking it twice on one thread never ends, and shows in the first test.
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

    /// `lock` and `unlock` are for those whose every step ends in a different state.
    @inline(__always) package borrowing func lock() { pthread_mutex_lock(mutex) }
    @inline(__always) package borrowing func unlock() { pthread_mutex_unlock(mutex) }
}
