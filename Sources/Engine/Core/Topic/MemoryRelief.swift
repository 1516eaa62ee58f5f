// MemoryRelief: what gives way when memory is short, in this order: what can be made again; history that is only
// replay; what subscriptions merely wait for, down to a fair share of each topic, which they lose as they do to
// `retain-bytes`. What `block` subscriptions wait for, and publishes that are parked, do not give way. Beyond the limit
// these alone have publishes refused, and a fourth above the limit that is used up in spite of all. What clients that
// do not read were handed has bounds of its own, and refuses nobody.

import Replay

final class MemoryRelief {
    /// Beyond its limit, memory is given up to one part in so many more.
    static let overshoot = 4
    /// Topics that one look goes over.
    static let topicsPerLook = 256

    private let context: ShardContext
    private let memory: MemoryBudget
    private let topics: TopicTable
    /// When it may help again, on the monotonic clock.
    private var next: UInt64 = 0
    /// Where it goes on with topics.
    private var topicPlace = 0
    /// Views with messages in other forms, which can be made again, and where it goes on with them.
    private(set) var viewsWithForms: [TopicView] = []
    private var viewPlace = 0

    init(context: ShardContext, topics: TopicTable) {
        self.context = context
        memory = context.memory
        self.topics = topics
    }

    /// Publishes were refused for want of memory between the last two ticks, on any thread.
    private(set) var isRefusing = false
    private var refusedBefore: UInt64 = 0

    /// A tick has ended.
    func noteRefusals() {
        isRefusing = memory.refused > refusedBefore
        refusedBefore = memory.refused
    }

    // Refusals

    /// Why a topic takes nothing now; nil unless memory is short and it cannot give up enough of its own.
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
            "The broker's memory of \(memory.limit) bytes is full, and '\(topic)' can have no more of it; "
                + "publish later, or give the broker more with --memory.")
        refusal.limit = .memory
        return refusal
    }

    /// Why nothing is sent on to a topic of another shard, which may yet give up messages for it; nil unless a fourth
    /// more memory is used than there should be.
    func forwardRefusal(to topic: String) -> Refusal? { isFull && isBeyond ? fullRefusal(of: topic) : nil }

    /// As shares are not paid back in time by all, there is an end to them.
    private var isBeyond: Bool { memory.used - memory.limit > memory.limit / MemoryRelief.overshoot }

    /// Nothing gives way any more: what is not finished is kept of nobody, but for a little.
    @inline(__always)
    var isFull: Bool { memory.isFull && staysFull }

    private var staysFull: Bool {
        relieve(now: context.moment)
        return memory.isFull
    }

    /// Clients have begun so much that nobody may begin more than a little.
    var isPendingFull: Bool {
        guard memory.isPendingFull else { return false }
        // What gives way does so first.
        if memory.isFull { relieve(now: context.moment) }
        return memory.isPendingFull
    }

    /// Why one more publish cannot wait; nil if it can.
    func parkRefusal(of topic: String) -> Refusal? { isPendingFull ? fullRefusal(of: topic) : nil }

    /// Bytes that a connection may have kept of its unfinished messages while memory is full; nil while it is not.
    var shortReassembly: Int? {
        guard isPendingFull, !memory.isPendingLow else { return nil }
        return memory.isExhausted ? Limits.leastReassembly : Limits.shortReassembly
    }

    /// Those that were deleted count, too: they live on while someone waits for their messages.
    private var fairShare: Int { memory.limit / Swift.max(1, topics.count * context.shards) }

    /// What each may keep of what subscriptions merely wait for: of what connections leave unread, and of forms that
    /// are being sent, nothing is to be had at once.
    private var share: Int {
        let others = Swift.min(memory.unread + memory.forms, memory.limit / 2)
        return (memory.limit - others) / Swift.max(1, topics.count * context.shards)
    }

    // Giving up

    /// Gives up what may be, until a tenth is free; topics some at a time, the least used of these first. Where nothing
    /// was to be had of all of them, going over them again and again would only take time.
    func relieve(now: Instant) {
        guard now.monotonic >= next else { return }
        let before = memory.used
        let goal = memory.limit - memory.limit / 10
        defer { if memory.used < before { context.reached(.memory) } }
        // What can be made again goes first.
        context.pool.removeSpares()
        removeUnusedForms()
        let isRoundOver = relieveTopics(goal, now: now)
        if isRoundOver, memory.used > goal { next = now.monotonic + Timers.interval }
    }

    /// Messages in other forms that nobody is being sent go; views some at a time.
    func removeUnusedForms() {
        for _ in 0..<Swift.min(viewsWithForms.count, MemoryRelief.topicsPerLook) {
            // The last one takes the place of one that has gone.
            if viewPlace >= viewsWithForms.count { viewPlace = 0 }
            if viewsWithForms[viewPlace].removeUnusedRuns() { viewPlace += 1 }
        }
    }

    /// Returns whether it has been to all of them.
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

    /// Has forms of a view given up when memory is short.
    func add(_ view: TopicView) {
        assert(view.formsPlace < 0)
        view.formsPlace = viewsWithForms.count
        viewsWithForms.append(view)
    }

    /// A view has no forms any more.
    func remove(_ view: TopicView) {
        let last = viewsWithForms.removeLast()
        if last !== view {
            viewsWithForms[view.formsPlace] = last
            last.formsPlace = view.formsPlace
        }
        view.formsPlace = -1
    }
}
