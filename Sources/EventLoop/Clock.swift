// Clock: the two clocks that everything is timed by.

import Glibc

/// The machine's clocks, read through the vDSO (about 20 ns).
public enum Clock {
    /// Nanoseconds of a clock that never steps back; its zero means nothing.
    public static func monotonic() -> UInt64 {
        UInt64(read(CLOCK_MONOTONIC))
    }

    /// Nanoseconds since 1970; it steps when somebody sets the time.
    public static func wall() -> Int64 {
        read(CLOCK_REALTIME)
    }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
