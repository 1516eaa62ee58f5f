// Region: memory that holds messages and is shared by everything that sends them. It is freed with its last reference.
//
//     topic or view ──▶ region ◀── connections that have not been able to send all of it

import Synchronization

/// Part of a log, or of a view's messages in another form. It is immutable once it is shared.
class Region: @unchecked Sendable {
    final let capacity: Int
    final let base: UnsafeMutableRawPointer
    private final let budget: MemoryBudget
    private final let mark = Atomic<UInt64>(0)

    init(capacity: Int, budget: MemoryBudget) {
        self.capacity = capacity
        self.budget = budget
        base = .allocate(byteCount: capacity, alignment: 16)
        budget.add(capacity)
    }

    deinit {
        base.deallocate()
        budget.add(-capacity)
        if isUnread { budget.removeUnread(capacity) }
    }

    /// A unique number once the region has been released; 0 before. A released region is referenced only by connections
    /// that still have to send parts of it.
    final var letGoMark: UInt64 { mark.load(ordering: .relaxed) }
    final var isUnread: Bool { letGoMark != 0 }

    /// The owner releases the region.
    final func letGo() {
        if !isUnread { mark.store(budget.addUnread(capacity), ordering: .relaxed) }
    }
}
