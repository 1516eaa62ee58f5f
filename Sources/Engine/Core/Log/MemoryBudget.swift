// MemoryBudget: how much memory all logs, output and unfinished requests take, counted on all threads together.

import Synchronization

/// The shared counter of all memory held by logs and output, in bytes.
public final class MemoryBudget: Sendable {
    private let most: Atomic<Int>
    private let counter = Counter()

    public init(limit: Int) { most = Atomic(limit) }

    /// Bytes that all of them together may hold. Whoever runs the broker may change it at any time.
    public var limit: Int {
        get { most.load(ordering: .relaxed) }
        set { most.store(newValue, ordering: .relaxed) }
    }

    public var used: Int { counter.value }
    /// More is used than there should be.
    var isFull: Bool { used > limit }
    func add(_ bytes: Int) { counter.add(bytes) }

    /// Bytes of what clients have begun, in all: requests that are not whole, not dealt with or not answered, and
    /// publishes that wait.
    private let pending = Counter()

    /// There are `change` bytes more of that.
    func addPending(_ change: Int) {
        pending.add(change)
        counter.add(change)
    }

    /// Half of the memory is taken so, or all is used: clients may begin but little more. The rest is for messages.
    var isPendingFull: Bool { pending.value > limit / 2 || used > limit }
    /// A sixteenth is theirs, whatever else is used: clients that do not read may not keep others from publishing.
    var isPendingLow: Bool { pending.value <= limit / 16 }
    /// It is not far from that.
    var isPendingHigh: Bool { pending.value > limit / 2 - limit / 8 }
    /// An eighth more is: next to nothing.
    var isExhausted: Bool { pending.value > limit / 2 + limit / 8 || used > limit + limit / 8 }

    /// Bytes of regions that topics and views have let go of, which connections still name.
    private let unreadCounter = Counter()
    public var unread: Int { unreadCounter.value }
    private let marks = Atomic<UInt64>(0)

    /// Returns a number that no other region has.
    func addUnread(_ bytes: Int) -> UInt64 {
        unreadCounter.add(bytes)
        return marks.add(1, ordering: .relaxed).newValue
    }

    func removeUnread(_ bytes: Int) { unreadCounter.add(-bytes) }

    /// Bytes of large messages in other forms.
    private let formsCounter = Counter()
    var forms: Int { formsCounter.value }
    func addForms(_ change: Int) { formsCounter.add(change) }

    /// Publishes that were refused for want of memory, on all threads.
    private let refusals = Atomic<UInt64>(0)
    var refused: UInt64 { refusals.load(ordering: .relaxed) }
    func noteRefusal() { refusals.add(1, ordering: .relaxed) }

    /// Bytes that those who write to sockets hold of what a socket has taken a part of, in all.
    private let held = Counter()

    /// One of them holds `change` bytes more. On any thread.
    public func hold(_ change: Int) {
        held.add(change)
        counter.add(change)
    }

    /// They hold more than their share.
    public var isHoldingMuch: Bool { held.value > limit / 32 }
}
