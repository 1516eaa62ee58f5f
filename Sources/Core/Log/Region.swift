// Region: memory with messages in it, which is named by whoever is sent them. It goes when nobody names it any more.
//
//     topic or view ──▶ region ◀── connections that have not been able to send all of it

import Synchronization

/// Part of a log, or of a view's messages in another form. Written before others are told of it, and then never.
class Region: @unchecked Sendable {
    final let capacity: Int
    final let base: UnsafeMutableRawPointer
    private final let budget: MemoryBudget
    private final let isLetGo = Atomic(false)

    init(capacity: Int, budget: MemoryBudget) {
        self.capacity = capacity
        self.budget = budget
        base = .allocate(byteCount: capacity, alignment: 16)
        budget.add(capacity)
    }

    deinit {
        base.deallocate()
        budget.add(-capacity)
        if isUnread { budget.addUnread(-capacity) }
    }

    /// Only connections may still name it, that have yet to send what they were handed of it.
    final var isUnread: Bool { isLetGo.load(ordering: .relaxed) }

    /// Who made it gives it up.
    final func letGo() {
        if !isLetGo.exchange(true, ordering: .relaxed) { budget.addUnread(capacity) }
    }
}
