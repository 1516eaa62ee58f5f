// Monitor: a mutex with a condition, for queues between threads. It uses pthreads, because the thread sanitizer does
// not see Synchronization's mutex, and because a wait needs a deadline.

import Glibc

/// A value that only one thread at a time can use, and a condition to wait for changes of it.
package final class Monitor<Value>: @unchecked Sendable {
    // Unchecked because `value` is not protected by the compiler: it is used only under the lock.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value

    package init(_ value: Value) {
        self.value = value
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(changed, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(mutex)
        changed.deallocate()
        mutex.deallocate()
    }

    /// Runs `body` under the lock.
    package func with<R>(_ body: (inout Value) -> R) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&value)
    }

    /// Waits until `body` returns a result. It runs under the lock, first at once, then after each `signal`, and at the
    /// time that it gave last, in nanoseconds of the monotonic clock.
    package func wait<R>(_ body: (inout Value, _ deadline: inout UInt64?) -> R?) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            var deadline: UInt64?
            if let result = body(&value, &deadline) { return result }
            if let deadline {
                var time = timespec(
                    tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
                pthread_cond_timedwait(changed, mutex, &time)
            } else {
                pthread_cond_wait(changed, mutex)
            }
        }
    }

    package func signal() { pthread_cond_signal(changed) }
    package func signalAll() { pthread_cond_broadcast(changed) }
}
