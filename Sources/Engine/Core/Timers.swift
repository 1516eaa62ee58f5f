// Timers: what a shard has to visit at which time, for `Ticker`.

import ForebayWire
import Replay

final class Timers: ShardPart {
    static let interval: UInt64 = Limits.second / 4

    var topics = TimerQueue<Topic>()
    var connections = TimerQueue<Connection>()
    /// `block` subscriptions for which messages wait.
    var blockers = TimerQueue<Subscriber>()
    /// Connections that were active since the last tick.
    private var touched: [Connection] = []
    /// Connections that the current tick still has to visit.
    private var dueConnections: [Connection] = []
    /// Views whose counts have changed since the last tick.
    private var touchedViews: [TopicView] = []
    private var dueViews: [TopicView] = []
    private(set) var isTicking = false
    /// When the next tick and the next statistics are due.
    var nextTick: UInt64
    var nextStatistics: UInt64
    /// The accumulated lateness of all ticks, in nanoseconds.
    var lateness: UInt64 = 0
    /// The total time for which the thread stood still, in nanoseconds, and when that was last detected.
    private(set) var stoodStill: (time: UInt64, until: UInt64) = (0, 0)

    override init(_ context: ShardContext) {
        nextTick = context.moment.monotonic + Timers.interval
        nextStatistics = context.moment.monotonic + Limits.second
        super.init(context)
    }

    var touchedCount: Int { touched.count + dueConnections.count }

    /// Makes the next tick visit a connection.
    @inline(__always)
    func touch(_ connection: Connection) {
        guard !connection.lists.isTouched else { return }
        connection.lists.isTouched = true
        touched.append(connection)
    }

    /// Makes the next tick report a view's counts to its owner.
    @inline(__always)
    func touch(_ view: TopicView) {
        guard !view.isTouched else { return }
        view.isTouched = true
        touchedViews.append(view)
    }

    func beginTick() {
        assert(!isTicking && dueConnections.isEmpty && dueViews.isEmpty)
        isTicking = true
        swap(&touched, &dueConnections)
        swap(&touchedViews, &dueViews)
    }

    func nextTouchedView() -> TopicView? {
        let view = dueViews.popLast()
        view?.isTouched = false
        return view
    }

    /// The next connection that was active, or that may have reached a time limit.
    func nextDueConnection(now: UInt64) -> Connection? {
        guard let connection = dueConnections.popLast() else { return connections.takeDue(now: now) }
        connection.lists.isTouched = false
        return connection
    }

    func endTick(now: UInt64) {
        assert(dueConnections.isEmpty && dueViews.isEmpty)
        isTicking = false
        nextTick = now + Timers.interval
    }

    /// Records that the thread did not run for the last `time` nanoseconds.
    func noteStandstill(_ time: UInt64, now: UInt64) { stoodStill = (stoodStill.time &+ time, now) }

    /// Schedules a topic for its next deadline.
    func schedule(_ topic: Topic, now: UInt64) {
        if topic.held == nil { return }
        topics.schedule(topic, by: topic.deadline(now: now))
    }
}
