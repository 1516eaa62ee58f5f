// Region: memory with messages in it, which is named by whoever is sent them. It goes when nobody names it any more.
//
//     topic or view ──▶ region ◀── connections that have not been able to send all of it

import Synchronization

/// Part of a log, or of a view's messages in another form. Written before others are told of it, and then never.
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

    /// Which of all regions that were let go of it is; 0 while it was not. Only connections may still name one that
    /// was, which have yet to send what they were handed of it.
    final var letGoMark: UInt64 { mark.load(ordering: .relaxed) }
    final var isUnread: Bool { letGoMark != 0 }

    /// Who made it gives it up.
    final func letGo() {
        if !isUnread { mark.store(budget.addUnread(capacity), ordering: .relaxed) }
    }
}
