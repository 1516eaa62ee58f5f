// Timers: what a shard is to look at when time has passed. `Ticker` looks at it.

import ForebayWire
import Replay

final class Timers: ShardPart {
    static let interval: UInt64 = Limits.second / 4

    var topics = TimerQueue<Topic>()
    var connections = TimerQueue<Connection>()
    /// `block` subscriptions that messages wait for.
    var blockers = TimerQueue<Subscriber>()
    /// Connections that something has happened to since the last tick.
    private var touched: [Connection] = []
    /// Those that the tick under way is still to look at.
    private var dueConnections: [Connection] = []
    /// The same of views: their figures have changed.
    private var touchedViews: [TopicView] = []
    private var dueViews: [TopicView] = []
    private(set) var isTicking = false
    /// When the next tick is due, and the figures for the next second.
    var nextTick: UInt64
    var nextStatistics: UInt64
    /// By how many nanoseconds all ticks together were late.
    var lateness: UInt64 = 0
    /// For how many nanoseconds the thread stood still, in all, and when that was last found out.
    private(set) var stoodStill: (time: UInt64, until: UInt64) = (0, 0)

    override init(_ context: ShardContext) {
        nextTick = context.moment.monotonic + Timers.interval
        nextStatistics = context.moment.monotonic + Limits.second
        super.init(context)
    }

    var touchedCount: Int { touched.count + dueConnections.count }

    /// The next tick looks at a connection.
    @inline(__always)
    func touch(_ connection: Connection) {
        guard !connection.lists.isTouched else { return }
        connection.lists.isTouched = true
        touched.append(connection)
    }

    /// The next tick tells a view's owner of its figures.
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

    /// A connection that something has happened to, or of which a limit of time may be reached.
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

    /// The thread did not run for so many nanoseconds until now.
    func noteStandstill(_ time: UInt64, now: UInt64) { stoodStill = (stoodStill.time &+ time, now) }

    /// Has a topic looked at when something of it is due.
    func schedule(_ topic: Topic, now: UInt64) {
        if topic.held == nil { return }
        topics.schedule(topic, by: topic.deadline(now: now))
    }
}
