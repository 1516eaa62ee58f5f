// Ticking: what happens with time alone. A few times a second each shard looks at what is due: connections that
// something happened to since the last tick, connections and topics whose time has come, views that publishers wait
// for. It does so in slices, between which others have their turn; what is at rest is not looked at.

import ForebayWire
import Replay

/// What a shard is to look at when time has passed.
struct Timers {
    var topics = TimerQueue<Topic>()
    var connections = TimerQueue<Connection>()
    /// `block` subscriptions that messages wait for.
    var blockers = TimerQueue<Subscriber>()
    /// Connections that something has happened to since the last tick.
    private var touched: [Connection] = []
    /// Those that the tick under way is still to look at.
    fileprivate var dueConnections: [Connection] = []
    /// The same of views: their figures have changed.
    private var touchedViews: [Mirror] = []
    fileprivate var dueViews: [Mirror] = []
    fileprivate var isTicking = false
    /// When the next tick is due, and the figures for the next second.
    var nextTick: UInt64
    fileprivate var nextStatistics: UInt64
    /// By how many nanoseconds all ticks together were late.
    fileprivate(set) var lateness: UInt64 = 0
    /// For how many nanoseconds the thread stood still, in all, and when that was last found out.
    fileprivate(set) var stoodStill: (time: UInt64, until: UInt64) = (0, 0)

    init(now: UInt64) {
        nextTick = now + Shard.tickInterval
        nextStatistics = now + Limits.second
    }

    var touchedCount: Int { touched.count + dueConnections.count }

    /// The next tick looks at a connection.
    @inline(__always)
    mutating func touch(_ connection: Connection) {
        guard !connection.isTouched else { return }
        connection.isTouched = true
        touched.append(connection)
    }

    /// The next tick tells a view's owner of its figures.
    @inline(__always)
    mutating func touch(_ view: Mirror) {
        guard !view.isTouched else { return }
        view.isTouched = true
        touchedViews.append(view)
    }

    fileprivate mutating func begin() {
        isTicking = true
        swap(&touched, &dueConnections)
        swap(&touchedViews, &dueViews)
    }
}

extension Shard {
    static let tickInterval: UInt64 = Limits.second / 4
    /// Views, connections, topics and subscriptions that one slice of a tick looks at.
    static let tickSlice = 1024

    /// `deadline` has passed.
    public func fire(now: Instant) {
        moment = now
        pool.look()
        if now.monotonic >= rateLimiter.nextPayment {
            rateLimiter.payWaiting(self, now: now)
            settle(now)
        }
        guard now.monotonic >= timers.nextTick else { return }
        if !timers.isTicking { beginTick(now: now) }
        if goOnTicking(now: now) { endTick(now: now) }
        settle(now)
    }

    private func beginTick(now: Instant) {
        let lateness = now.monotonic - timers.nextTick
        timers.lateness &+= lateness
        if lateness >= Limits.standstill { standStill(lateness, now: now) }
        timers.begin()
    }

    /// Looks at one slice of what is due. True when nothing is left of it. However long the turn has taken so
    /// far, a slice takes no more than half of one.
    private func goOnTicking(now: Instant) -> Bool {
        var left = Shard.tickSlice
        let end = work.spent + Work.turn / 2
        var mayGoOn: Bool { left > 0 && work.spent < end }
        while mayGoOn, let view = timers.dueViews.popLast() {
            left -= 1
            view.isTouched = false
            view.markDirty()
        }
        while mayGoOn, let connection = timers.dueConnections.popLast() {
            left -= 1
            connection.isTouched = false
            visit(connection, now: now)
        }
        while mayGoOn, let connection = timers.connections.takeDue(now: now.monotonic) {
            left -= 1
            visit(connection, now: now)
        }
        while mayGoOn, let topic = timers.topics.takeDue(now: now.monotonic) {
            left -= 1 + tick(topic, most: left, now: now)
        }
        while mayGoOn, let subscriber = timers.blockers.takeDue(now: now.monotonic) {
            left -= 1
            tick(subscriber, now: now)
        }
        return mayGoOn
    }

    private func endTick(now: Instant) {
        timers.isTicking = false
        timers.nextTick = now.monotonic + Shard.tickInterval
        if memory.used > memory.limit - memory.limit / 20 { relief.relieve(now: now) }
        isRefusing = memory.refused > refusedBefore
        refusedBefore = memory.refused
        feedStarved()
        relieveUnread(now: now)
        if memory.isPendingHigh, !isSweeping(.holdingBack) { sweep(.holdingBack, now: now) }
        giveUpUnacknowledged(now: now)
        if now.monotonic >= timers.nextStatistics { tellStatistics(now: now) }
    }

    // Topics

    /// Has a topic looked at when something of it is due.
    func schedule(_ topic: Topic, now: UInt64) {
        if topic.held == nil { return }
        timers.topics.schedule(topic, by: topic.deadline(now: now))
    }

    /// Returns how many channels and publishes were looked at.
    private func tick(_ topic: Topic, most: Int, now: Instant) -> Int {
        let visited = topic.tick(most: most, now: now)
        if let since = topic.idleSince, !TopicName.isSystem(topic.name), now.monotonic - since >= limits.topicIdle {
            // A deleted one lives on while somebody waits for its messages.
            let isNamed = topics.hasName(topic)
            remove(topic)
            if isNamed { event("topic-removed", topic: topic.name, epoch: topic.epoch) }
        } else {
            // Later, or what cannot be brought about now would keep this tick going.
            let soonest = visited < most ? now.monotonic + 1 : now.monotonic
            timers.topics.schedule(topic, by: Swift.max(topic.deadline(now: now.monotonic), soonest))
        }
        return visited
    }

    /// A `block` subscription that stays full without progress gives way. One that messages wait for is looked at again
    /// when it may have been full for too long.
    private func tick(_ subscriber: Subscriber, now: Instant) {
        let time = now.monotonic
        subscriber.excuse(timers.stoodStill, now: time)
        noteFullness(of: subscriber, now: time)
        guard let since = subscriber.fullSince else {
            if subscriber.cursor.floor != nil {
                timers.blockers.schedule(subscriber, by: time.addingClamped(limits.blockLimit))
            }
            return
        }
        guard time - since >= limits.blockLimit else {
            return timers.blockers.schedule(subscriber, by: since.addingClamped(limits.blockLimit))
        }
        subscriber.cursor.fail(.blockedTooLong)
        deliver(subscriber, now: now)
    }

    /// Messages wait for a `block` subscription, or did.
    func noteWaiting(_ subscriber: Subscriber) {
        let now = moment.monotonic
        noteFullness(of: subscriber, now: now)
        guard subscriber.timerPlace < 0, subscriber.cursor.floor != nil else { return }
        timers.blockers.schedule(subscriber, by: now.addingClamped(limits.blockLimit))
    }

    /// A `block` subscription was brought messages, or handed some.
    func noteFullness(of subscriber: Subscriber, now: UInt64) {
        guard let floor = subscriber.cursor.floor, isFull(subscriber, from: floor) else {
            return subscriber.fullSince = nil
        }
        guard subscriber.fullSince == nil || subscriber.fullAt != floor else { return }
        subscriber.fullSince = now
        subscriber.fullAt = floor
        subscriber.excused = timers.stoodStill.time
    }

    /// Whether publishers must wait for a `block` subscription that waits for the messages from `floor` on: it holds as
    /// many as it may, or the topic has no bytes left for one more.
    private func isFull(_ subscriber: Subscriber, from floor: SequenceNumber) -> Bool {
        let view = subscriber.mirror
        guard floor < view.end else { return false }
        if view.end - floor >= subscriber.options.buffer { return true }
        let most = view.byteLimit - view.typical
        return view.log.bytes > most && view.log.bytes(from: floor) > most
    }

    /// This thread did not run for a while: the process was stopped, or its machine was busy with something else. What
    /// clients said meanwhile has not been read, and they could not be asked; so that time does not count against them,
    /// which each is told when it is looked at.
    private func standStill(_ late: UInt64, now: Instant) {
        timers.stoodStill = (timers.stoodStill.time &+ late, now.monotonic)
        effects.log.append(
            LogRecord(
                level: .warning, message: "stood still",
                fields: [("shard", index), ("milliseconds", late / 1_000_000)]))
    }

    private func tellStatistics(now: Instant) {
        timers.nextStatistics = now.monotonic + Limits.second
        rateLimiter.sweep()
        let counters = currentCounters()
        // Of the next second, another one may be told.
        self.counters.lostTopic = ""
        let owner = owner(of: SystemTopic.stats)
        if owner == index {
            statistics.take(counters, from: index)
            publishSystem(
                SystemTopic.stats, statistics.object(memory: memory.used, limit: memory.limit, now: now).bytes(),
                now: now)
            if let loss = statistics.loss { effects.log.append(loss) }
        } else {
            send(.stats(shard: index, counters), to: owner)
        }
    }
}
