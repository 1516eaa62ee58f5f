// MemoryReturn: the C library keeps what is freed for the next time. After a flood of connections that is most of what
// the process has, for ever, so the library is told to give it back to the machine.

import EventLoop

/// Looks now and then, by the process's resident size, whether there is much that nobody uses. To give it back holds
/// each thread's allocations up for as long as the library goes over what is free, some 50 ms for 100 MiB, so it is
/// only done where it is most of the process.
struct MemoryReturn {
    /// Nanoseconds between two looks.
    static let interval: UInt64 = 10_000_000_000
    /// The most of them, where memory could not be given back: it is in use, or lies scattered.
    static let longestPause: UInt64 = 3_600_000_000_000
    /// Bytes beyond what messages take that are left alone: code, tables, what is free for the next time.
    static let slack = 64 << 20

    private var due: UInt64
    private var pause = MemoryReturn.interval

    /// - Parameter now: on the monotonic clock, as everywhere here.
    init(now: UInt64) { due = now + MemoryReturn.interval }

    /// Nanoseconds until `look` is to be called.
    func timeout(now: UInt64) -> UInt64 { due > now ? due - now : 0 }

    /// Gives memory back if it is time to look and there is enough of it.
    /// - Parameters:
    ///   - used: bytes that messages take.
    ///   - resident: the process's resident size in bytes; asked for once more behind `giveBack`.
    /// - Returns: how many bytes went back; nil where nothing was done.
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
