// Reports: what shards tell each other that can wait and be told together – how far views are, events, and publishes
// that came to nothing before they reached their topic's owner. Each shard has one report under way to each other one;
// what comes meanwhile goes with the next. So a shard that is busy for long is not sent ever more: of a view the latest
// counts, of events there are so many bytes, and of losses so many topics.
//
//     view moved, event, loss ─▶ pending ──nothing under way──▶ report ──▶ heard ──▶ the next one

final class Reports: ShardPart {
    /// Bytes of events that wait for one shard, and what each is charged beside its own.
    static let eventBytes = 1 << 20
    static let eventOverhead = 64
    /// Views, events, and topics with losses, each, that one report tells of.
    static let most = 1024

    /// Those to one shard.
    fileprivate struct Pending {
        var views: [TopicView] = []
        var events: [[UInt8]] = []
        var losses: [String: TopicLosses] = [:]
        var bytes = 0
        var count: Int { views.count + events.count + losses.count }
        /// Bytes of events that are on their way; nil while no report is.
        var underWay: Int?
    }

    private var pending: [Pending]
    /// Shards that have something to be told.
    private var due: [Int] = []
    /// Some of them can be told now.
    @inline(__always)
    var isDue: Bool { !due.isEmpty }
    /// Bytes of all events that wait or are on their way; they count as memory of the broker.
    private(set) var charged = 0

    override init(_ context: ShardContext) {
        pending = Array(repeating: Pending(), count: context.shards)
        super.init(context)
    }

    /// The owner of a view is to be told how far it is.
    func add(_ view: TopicView) {
        pending[view.owner].views.append(view)
        note(view.owner)
    }

    /// False when as many events wait as may.
    private func add(_ event: [UInt8], to shard: Int) -> Bool {
        let size = event.count + Reports.eventOverhead
        guard pending[shard].bytes + size <= Reports.eventBytes, memory.used <= memory.limit else { return false }
        pending[shard].events.append(event)
        pending[shard].bytes += size
        charge(size)
        note(shard)
        return true
    }

    /// The owner of a topic is to count publishes to it that came to nothing here. Where as many topics wait as may,
    /// those to others are counted in all alone.
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

    /// What a shard is told next.
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

    /// Has an event told to the shard that owns the topic of events. One that finds no room is lost, and counted.
    func report(event: [UInt8], to shard: Int) {
        if !add(event, to: shard) { reached(.events) }
    }

    /// Sends what is due. To be called when an input is dealt with.
    func sendDue() {
        while let shard = due.popLast() { send(.report(take(shard), from: index), to: shard) }
    }
}

/// What one shard tells another.
struct Report: Sendable {
    /// How far views are, by their topics' epochs.
    var progress: [(epoch: UInt64, ViewProgress)] = []
    var events: [[UInt8]] = []
    /// By topic.
    var losses: [String: TopicLosses] = [:]
}
