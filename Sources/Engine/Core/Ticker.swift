// Ticker: time-driven work. A few times a second each shard checks what is due: connections that were active since the
// last tick, connections and topics with a deadline, and `block` subscriptions that hold publishers back. The checks
// are done in slices, between which other work runs. Idle objects are not visited.

import ForebayWire
import Replay

final class Ticker: ShardPart {
    let timers: Timers
    let topics: TopicTable
    let rateLimiter: RateLimiter
    let relief: MemoryRelief
    let events: Events
    let blocking: Blocking
    let ownership: TopicOwnership
    let publishing: Publishing
    let statistics: BrokerStatistics
    let feeding: OutputFeeding
    let resumption: Resumption
    let connectionTicks: ConnectionTicks
    let unreadRelief: UnreadRelief
    let propagation: Propagation
    let scheduler: Scheduler

    init(
        _ context: ShardContext, _ timers: Timers, _ topics: TopicTable, _ rateLimiter: RateLimiter,
        _ relief: MemoryRelief, _ events: Events, _ blocking: Blocking, _ ownership: TopicOwnership,
        _ publishing: Publishing, _ statistics: BrokerStatistics, _ feeding: OutputFeeding, _ resumption: Resumption,
        _ connectionTicks: ConnectionTicks, _ unreadRelief: UnreadRelief, _ propagation: Propagation,
        _ scheduler: Scheduler
    ) {
        self.timers = timers
        self.topics = topics
        self.rateLimiter = rateLimiter
        self.relief = relief
        self.events = events
        self.blocking = blocking
        self.ownership = ownership
        self.publishing = publishing
        self.statistics = statistics
        self.feeding = feeding
        self.resumption = resumption
        self.connectionTicks = connectionTicks
        self.unreadRelief = unreadRelief
        self.propagation = propagation
        self.scheduler = scheduler
        super.init(context)
    }

    /// Views, connections, topics and subscriptions visited in one slice of a tick.
    static let slice = 1024

    /// Does what is due. Called when `deadline` has passed.
    func fire(now: Instant) {
        pool.look()
        if now.monotonic >= rateLimiter.nextPayment {
            rateLimiter.payWaiting(publishing, now: now)
            propagation.run(now)
        }
        guard now.monotonic >= timers.nextTick else { return }
        if !timers.isTicking { beginTick(now: now) }
        if goOnTicking(now: now) { endTick(now: now) }
    }

    private func beginTick(now: Instant) {
        let lateness = now.monotonic - timers.nextTick
        timers.lateness &+= lateness
        if lateness >= Limits.standstill { standStill(lateness, now: now) }
        timers.beginTick()
    }

    /// Visits one slice of what is due. Returns true if nothing is left. However long the turn has taken so far, a
    /// slice takes at most half a turn.
    private func goOnTicking(now: Instant) -> Bool {
        var left = Ticker.slice
        let end = work.spent + Work.turn / 2
        var mayGoOn: Bool { left > 0 && work.spent < end }
        while mayGoOn, let view = timers.nextTouchedView() {
            left -= 1
            view.markDirty()
        }
        while mayGoOn, let connection = timers.nextDueConnection(now: now.monotonic) {
            left -= 1
            connectionTicks.visit(connection, now: now)
        }
        while mayGoOn, let topic = timers.topics.takeDue(now: now.monotonic) {
            left -= 1 + tick(topic, most: left, now: now)
        }
        while mayGoOn, let subscriber = timers.blockers.takeDue(now: now.monotonic) {
            left -= 1
            blocking.tick(subscriber, now: now)
        }
        return mayGoOn
    }

    private func endTick(now: Instant) {
        timers.endTick(now: now.monotonic)
        if memory.used > memory.limit - memory.limit / 20 { relief.relieve(now: now) }
        relief.noteRefusals()
        scheduler.delivery.subscribing.patterns.rest.begin(now: now)
        feeding.feedStarved()
        unreadRelief.relieveUnread(now: now)
        if memory.isPendingHigh, !scheduler.isSweeping(.holdingBack) { scheduler.sweep(.holdingBack, now: now) }
        resumption.giveUpUnacknowledged(now: now)
        if now.monotonic >= timers.nextStatistics { statistics.report(now: now) }
    }

    // Topics

    /// Returns how many channels and publishers were visited.
    private func tick(_ topic: Topic, most: Int, now: Instant) -> Int {
        let visited = topic.tick(most: most, now: now)
        let isIdle = topic.usage.idleSince.map { now.monotonic - $0 >= limits.topicIdle } ?? false
        if isIdle, topic.isKept { topic.giveBack(to: 0, now: now) }
        if isIdle, !topic.isKept, !TopicName.isSystem(topic.name) {
            // A deleted topic stays while subscriptions wait for its messages.
            let isNamed = topics.hasName(topic)
            ownership.remove(topic)
            if isNamed { events.event("topic-removed", topic: topic.name, epoch: topic.epoch) }
        } else {
            // The time must be later than now; otherwise, work that cannot be done yet would keep this tick running.
            let soonest = visited < most ? now.monotonic + 1 : now.monotonic
            timers.topics.schedule(topic, by: Swift.max(topic.deadline(now: now.monotonic), soonest))
        }
        return visited
    }

    /// Records that this thread did not run for a while: the process was stopped, or the machine was busy. Input from
    /// clients was not read and no keepalives were sent, so that time does not count against clients. The time is
    /// credited to each client when its connection is visited.
    private func standStill(_ late: UInt64, now: Instant) {
        timers.noteStandstill(late, now: now.monotonic)
        effects.log.append(
            LogRecord(
                level: .warning, message: "shard stalled",
                fields: [("shard", index), ("milliseconds", late / 1_000_000)]))
    }
}
