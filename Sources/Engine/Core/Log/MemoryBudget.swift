// MemoryBudget: the memory used by all logs, output and unfinished requests, counted across all threads.

import Synchronization

/// The shared counter of all memory held by logs and output, in bytes.
public final class MemoryBudget: Sendable {
    private let most: Atomic<Int>
    private let counter = Counter()

    public init(limit: Int) { most = Atomic(limit) }

    /// How many bytes may be used in total. The operator may change this limit at any time.
    public var limit: Int {
        get { most.load(ordering: .relaxed) }
        set { most.store(newValue, ordering: .relaxed) }
    }

    public var used: Int { counter.value }
    /// Whether usage exceeds the limit.
    var isFull: Bool { used > limit }
    func add(_ bytes: Int) { counter.add(bytes) }

    /// Bytes of what clients have started: requests that are incomplete, unprocessed or unanswered, and publishes that
    /// wait.
    private let pending = Counter()

    /// Adds `change` to the pending bytes.
    func addPending(_ change: Int) {
        pending.add(change)
        counter.add(change)
    }

    /// Whether pending bytes take half of the memory, or all memory is used. Clients may then start only little more;
    /// the rest is for messages.
    var isPendingFull: Bool { pending.value > limit / 2 || used > limit }
    /// Whether pending bytes are below the sixteenth that is always available for them: clients that do not read must
    /// not keep others from publishing.
    var isPendingLow: Bool { pending.value <= limit / 16 }
    /// Whether pending bytes are close to the limit of `isPendingFull`.
    var isPendingHigh: Bool { pending.value > limit / 2 - limit / 8 }
    /// Whether pending bytes exceed the limit of `isPendingFull` by an eighth. Clients may then start next to nothing.
    var isExhausted: Bool { pending.value > limit / 2 + limit / 8 || used > limit + limit / 8 }

    /// Bytes of regions that topics and views have released and that connections still reference.
    private let unreadCounter = Counter()
    public var unread: Int { unreadCounter.value }
    private let marks = Atomic<UInt64>(0)

    /// Returns a number that no other region has.
    func addUnread(_ bytes: Int) -> UInt64 {
        unreadCounter.add(bytes)
        return marks.add(1, ordering: .relaxed).newValue
    }

    func removeUnread(_ bytes: Int) { unreadCounter.add(-bytes) }

    /// Bytes of large messages encoded in forms other than the log's.
    private let formsCounter = Counter()
    var forms: Int { formsCounter.value }
    func addForms(_ change: Int) { formsCounter.add(change) }

    /// Publishes refused for lack of memory, on all threads.
    private let refusals = Atomic<UInt64>(0)
    var refused: UInt64 { refusals.load(ordering: .relaxed) }
    func noteRefusal() { refusals.add(1, ordering: .relaxed) }

    /// Total bytes of partially written output that socket writers hold.
    private let held = Counter()

    /// A writer holds `change` more bytes. May be called on any thread.
    public func hold(_ change: Int) {
        held.add(change)
        counter.add(change)
    }

    /// Whether the writers hold more than their share.
    public var isHoldingMuch: Bool { held.value > limit / 32 }
}
