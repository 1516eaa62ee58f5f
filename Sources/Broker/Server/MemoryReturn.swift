// MemoryReturn: the C library keeps freed memory for later use. After a flood of connections this can be most of the
// process's memory, so the library is made to return free memory to the system.

import EventLoop

/// Periodically compares the process's resident size with the memory in use. Returning memory blocks allocations of all
/// threads while the library scans its free lists, some 50 ms for 100 MiB, so this happens only if free memory is the
/// larger part of the process.
struct MemoryReturn {
    /// Nanoseconds between two checks.
    static let interval: UInt64 = 10_000_000_000
    /// Maximum interval, after attempts that returned little because the memory is in use or fragmented.
    static let longestPause: UInt64 = 3_600_000_000_000
    /// Bytes beyond those of messages that are tolerated: code, tables, free memory for later use.
    static let slack = 64 << 20

    private var due: UInt64
    private var pause = MemoryReturn.interval

    /// - Parameter now: on the monotonic clock, like all times here.
    init(now: UInt64) { due = now + MemoryReturn.interval }

    /// Nanoseconds until `look` is due.
    func timeout(now: UInt64) -> UInt64 { due > now ? due - now : 0 }

    /// Returns free memory to the system if a check is due and there is enough of it.
    /// - Parameters:
    ///   - used: bytes used by messages.
    ///   - resident: the process's resident size in bytes; called again after `giveBack`.
    /// - Returns: the number of bytes returned; nil if nothing was done.
    mutating func look(now: UInt64, used: Int, resident: () -> Int, giveBack: () -> Void) -> Int? {
        guard due <= now else { return nil }
        let before = resident()
        let beyond = before - used
        guard beyond >= MemoryReturn.slack, beyond >= before / 2 else {
            pause = MemoryReturn.interval
            due = now + pause
            return nil
        }
        giveBack()
        let returned = max(0, before - resident())
        pause = returned < beyond / 4 ? min(pause * 2, MemoryReturn.longestPause) : MemoryReturn.interval
        due = now + pause
        return returned
    }
}
