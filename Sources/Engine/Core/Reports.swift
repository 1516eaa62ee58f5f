// Reports: information for other shards that is not urgent and can be batched: the progress of views, events, and
// publishes that failed before they reached their topic's owner. Each shard has at most one report in flight to each
// other shard; what arrives in the meantime goes into the next one. So the backlog for a busy shard stays bounded: the
// latest counts of each view, a limited number of bytes of events, and losses of a limited number of topics.
//
//     view moved, event, loss ─▶ pending ──none in flight──▶ report ──▶ heard ──▶ next report

final class Reports: ShardPart {
    /// Bytes of events that may wait for one shard, and what each event is charged in addition to its own bytes.
    static let eventBytes = 1 << 20
    static let eventOverhead = 64
    /// Maximum number of views, of events, and of topics with losses in one report.
    static let most = 1024

    /// What waits for one shard.
    fileprivate struct Pending {
        var views: [TopicView] = []
        var events: [[UInt8]] = []
        var losses: [String: TopicLosses] = [:]
        var bytes = 0
        var count: Int { views.count + events.count + losses.count }
        /// Bytes of events in the report in flight; nil if there is none.
        var underWay: Int?
    }

    private var pending: [Pending]
    /// Shards with something pending and no report in flight.
    private var due: [Int] = []
    /// Whether a report can be sent now.
    @inline(__always)
    var isDue: Bool { !due.isEmpty }
    /// Bytes of all events that are waiting or in flight. They count as the broker's memory.
    private(set) var charged = 0

    override init(_ context: ShardContext) {
        pending = Array(repeating: Pending(), count: context.shards)
        super.init(context)
    }

    /// Queues a view's progress for its topic's owner.
    func add(_ view: TopicView) {
        pending[view.owner].views.append(view)
        note(view.owner)
    }

    /// Returns false if there is no room for the event.
    private func add(_ event: [UInt8], to shard: Int) -> Bool {
        let size = event.count + Reports.eventOverhead
        guard pending[shard].bytes + size <= Reports.eventBytes, memory.used <= memory.limit else { return false }
        pending[shard].events.append(event)
        pending[shard].bytes += size
        charge(size)
        note(shard)
        return true
    }

    /// Queues publishes that failed here for the owner of their topic to count. If too many topics are pending, losses
    /// of further topics count only in the totals.
    func add(_ losses: TopicLosses, of topic: String, to shard: Int) {
        if pending[shard].losses[topic] != nil {
            pending[shard].losses[topic]?.add(losses)
        } else if pending[shard].losses.count < Reports.most {
            pending[shard].losses[topic] = losses
            note(shard)
        }
    }

    private func note(_ shard: Int) {
        if pending[shard].count == 1, pending[shard].underWay == nil { due.append(shard) }
    }

    /// The next report to a shard.
    private func take(_ shard: Int) -> Report {
        var report = Report()
        report.events = Array(pending[shard].events.prefix(Reports.most))
        pending[shard].events.removeFirst(report.events.count)
        let views = Array(pending[shard].views.prefix(Reports.most))
        pending[shard].views.removeFirst(views.count)
        for view in views {
            if let progress = view.takeReport() { report.progress.append((view.epoch, progress)) }
        }
        swap(&report.losses, &pending[shard].losses)
        let bytes = report.events.reduce(0) { $0 + $1.count + Reports.eventOverhead }
        pending[shard].underWay = bytes
        pending[shard].bytes -= bytes
        return report
    }

    func heard(by shard: Int) {
        charge(-(pending[shard].underWay ?? 0))
        pending[shard].underWay = nil
        if pending[shard].count > 0 { due.append(shard) }
    }

    private func charge(_ bytes: Int) {
        charged += bytes
        memory.add(bytes)
    }

    /// Sends an event to the shard that owns the topic of events. If there is no room, the event is lost and counted.
    func report(event: [UInt8], to shard: Int) {
        if !add(event, to: shard) { reached(.events) }
    }

    /// Sends the reports that are due. Called after each input.
    func sendDue() {
        while let shard = due.popLast() { send(.report(take(shard), from: index), to: shard) }
    }
}

/// What one shard reports to another.
struct Report: Sendable {
    /// Progress of views, by the epochs of their topics.
    var progress: [(epoch: UInt64, ViewProgress)] = []
    var events: [[UInt8]] = []
    /// Losses by topic.
    var losses: [String: TopicLosses] = [:]
}
