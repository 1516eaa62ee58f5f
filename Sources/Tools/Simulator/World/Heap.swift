// Heap: the bytes that the engine has allocated and not freed, as the allocator sees it. The engine's own figures have
// no part in that. What clients and ledgers allocate is not among them, wherever it is freed.

import CAllocations

enum Heap {
    /// False under a sanitizer, which has an allocator of its own: nothing is counted then.
    static var isCounted: Bool { allocation_counted() }

    /// Of the run on this thread.
    static var live: Int { heap_live() }

    /// Every call into the engine goes through here: what is allocated meanwhile is the engine's.
    @inline(__always)
    static func engine<Result>(_ body: () -> Result) -> Result {
        let before = heap_enter()
        defer { heap_leave(before) }
        return body()
    }

    /// Counts from nothing what `body` has the engine allocate.
    static func watch<Result>(_ body: () -> Result) -> Result {
        heap_watch()
        defer { heap_unwatch() }
        return body()
    }
}
