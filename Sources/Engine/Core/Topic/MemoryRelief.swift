// MemoryRelief: what is released when memory is short, in this order: data that can be produced again; history kept
// only for replay; messages that subscriptions wait for, down to a fair share for each topic, which count as lost, as
// under `retain-bytes`. What `block` subscriptions wait for, and parked publishes, are never released. Above the limit,
// publishes to topics in which these exceed the fair share are refused; once usage is a quarter above the limit,
// publishes to all topics are. Data handed to clients that do not read has its own bounds and causes no refusals.

import Replay

final class MemoryRelief {
    /// Usage may exceed the limit by at most 1/`overshoot` of it.
    static let overshoot = 4
    /// Topics visited in one pass.
    static let topicsPerLook = 256

    private let context: ShardContext
    private let memory: MemoryBudget
    private let topics: TopicTable
    /// When relief may help again, on the monotonic clock.
    private var next: UInt64 = 0
    /// The next topic slot to visit.
    private var topicPlace = 0
    /// Views with messages in other forms, which can be encoded again, and the index of the next one to visit.
    private(set) var viewsWithForms: [TopicView] = []
    private var viewPlace = 0

    init(context: ShardContext, topics: TopicTable) {
        self.context = context
        memory = context.memory
        self.topics = topics
    }

    /// Whether publishes were refused for lack of memory between the last two ticks, on any thread.
    private(set) var isRefusing = false
    private var refusedBefore: UInt64 = 0

    /// Called after each tick.
    func noteRefusals() {
        isRefusing = memory.refused > refusedBefore
        refusedBefore = memory.refused
    }

    // Refusals

    /// Why a topic accepts nothing now; nil unless memory is short and the topic cannot release enough of its memory.
    func refusal(for topic: Topic) -> Refusal? {
        guard memory.isFull else { return nil }
        relieve(now: context.moment)
        guard memory.isFull else { return nil }
        topic.shed(to: share, now: context.moment)
        guard isBeyond || topic.unsheddable > fairShare else { return nil }
        return fullRefusal(of: topic.name)
    }

    func fullRefusal(of topic: String) -> Refusal {
        context.reached(.memory)
        var refusal = Refusal.limit(
            "The broker's memory of \(memory.limit) bytes is full, and '\(topic)' cannot have more of it; "
                + "try again later, or start the broker with a larger --memory.")
        refusal.limit = .memory
        return refusal
    }

    /// Why nothing is forwarded to a topic of another shard, which may still be able to release messages; nil unless
    /// usage is more than a quarter above the limit.
    func forwardRefusal(to topic: String) -> Refusal? { isFull && isBeyond ? fullRefusal(of: topic) : nil }

    /// Whether usage is beyond its upper bound, which exists because topics may fail to return to their shares in time.
    private var isBeyond: Bool { memory.used - memory.limit > memory.limit / MemoryRelief.overshoot }

    /// Whether nothing is left to release. Only a little unfinished data is then kept for each client.
    @inline(__always)
    var isFull: Bool { memory.isFull && staysFull }

    private var staysFull: Bool {
        relieve(now: context.moment)
        return memory.isFull
    }

    /// Whether clients have started so much that each may start only a little more.
    var isPendingFull: Bool {
        guard memory.isPendingFull else { return false }
        // Release first what can be released.
        if memory.isFull { relieve(now: context.moment) }
        return memory.isPendingFull
    }

    /// Why another publish cannot be parked; nil if it can.
    func parkRefusal(of topic: String) -> Refusal? { isPendingFull ? fullRefusal(of: topic) : nil }

    /// Bytes of unfinished messages that a connection may keep while memory is full; nil while it is not.
    var shortReassembly: Int? {
        guard isPendingFull, !memory.isPendingLow else { return nil }
        return memory.isExhausted ? Limits.leastReassembly : Limits.shortReassembly
    }

    /// Counts deleted topics, too, because they remain while subscriptions wait for their messages.
    private var fairShare: Int { memory.limit / Swift.max(1, topics.count * context.shards) }

    /// The bytes that each topic may keep of messages for which subscriptions wait. Unread data and messages being sent
    /// in other forms cannot be released at once, so they are subtracted.
    private var share: Int {
        let others = Swift.min(memory.unread + memory.forms, memory.limit / 2)
        return (memory.limit - others) / Swift.max(1, topics.count * context.shards)
    }

    // Releasing

    /// Releases memory until a tenth is free. Topics are visited in slices, the least recently used of a slice first.
    /// If a pass over all of them did not free enough, the next one waits for a tick's interval.
    func relieve(now: Instant) {
        guard now.monotonic >= next else { return }
        let before = memory.used
        let goal = memory.limit - memory.limit / 10
        defer { if memory.used < before { context.reached(.memory) } }
        // Data that can be encoded again goes first.
        context.pool.removeSpares()
        removeUnusedForms()
        let isRoundOver = relieveTopics(goal, now: now)
        if isRoundOver, memory.used > goal { next = now.monotonic + Timers.interval }
    }

    /// Releases messages in other forms that are not being sent; views are visited in slices.
    func removeUnusedForms() {
        for _ in 0..<Swift.min(viewsWithForms.count, MemoryRelief.topicsPerLook) {
            // When a view is removed, the last one moves to its index.
            if viewPlace >= viewsWithForms.count { viewPlace = 0 }
            if viewsWithForms[viewPlace].removeUnusedRuns() { viewPlace += 1 }
        }
    }

    /// Returns whether the pass has reached the last topic.
    private func relieveTopics(_ goal: Int, now: Instant) -> Bool {
        let count = topics.heldBound
        let end = Swift.min(count, topicPlace + MemoryRelief.topicsPerLook)
        let some = (topicPlace..<end).compactMap { topics.held(at: $0) }
            .sorted { ($0.usage.lastUsed, $0.epoch) < ($1.usage.lastUsed, $1.epoch) }
        topicPlace = end >= count ? 0 : end
        for topic in some {
            guard memory.used > goal else { return topicPlace == 0 }
            topic.relieve(now: now)
        }
        for topic in some {
            guard memory.isFull else { break }
            topic.shed(to: share, now: now)
        }
        return topicPlace == 0
    }

    // Views with messages in other forms

    /// Registers a view whose forms can be released when memory is short.
    func add(_ view: TopicView) {
        assert(view.formsPlace < 0)
        view.formsPlace = viewsWithForms.count
        viewsWithForms.append(view)
    }

    /// Removes a view that no longer has forms.
    func remove(_ view: TopicView) {
        let last = viewsWithForms.removeLast()
        if last !== view {
            viewsWithForms[view.formsPlace] = last
            last.formsPlace = view.formsPlace
        }
        view.formsPlace = -1
    }
}
