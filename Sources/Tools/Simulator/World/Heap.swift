// Heap: the bytes that the engine has allocated and not freed, according to the allocator, independent of the engine's
// own accounting. Excludes allocations of clients and ledgers, wherever they are freed.

import CAllocations

enum Heap {
    /// Whether allocations are counted: not under a sanitizer, which has its own allocator.
    static var isCounted: Bool { allocation_counted() }

    /// The bytes that the run on this thread has allocated and not freed.
    static var live: Int { heap_live() }

    /// Makes a call into the engine, whose allocations during the call are counted. Every call goes through here.
    @inline(__always)
    static func engine<Result>(_ body: () -> Result) -> Result {
        let before = heap_enter()
        defer { heap_leave(before) }
        return body()
    }

    /// Starts counting at zero, and counts the engine's allocations in `body`.
    static func watch<Result>(_ body: () -> Result) -> Result {
        heap_watch()
        defer { heap_unwatch() }
        return body()
    }
}
