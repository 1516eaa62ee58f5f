// Clock: the two clocks used for all times, and a thread's processor time.

import Glibc

/// The machine's clocks; the first two are read through the vDSO (about 20 ns).
public enum Clock {
    /// Nanoseconds of a clock that never steps back; its zero has no meaning.
    public static func monotonic() -> UInt64 {
        UInt64(read(CLOCK_MONOTONIC))
    }

    /// Nanoseconds since 1970; it steps when the system's time is set.
    public static func wall() -> Int64 {
        read(CLOCK_REALTIME)
    }

    /// Nanoseconds of processor time that the calling thread has used. A system call: about 0.3 to 0.7 µs.
    public static func thread() -> UInt64 {
        UInt64(read(CLOCK_THREAD_CPUTIME_ID))
    }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
