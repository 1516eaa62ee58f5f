// PublishLoss: publishes that came to nothing, counted by reason – those that are never answered as dropped, all others
// as refused. What is lost for a shortage of the broker is told in the log as well, once a second.

/// Why a publish came to nothing.
public enum PublishLoss: Int, TallyKey {
    case memory, room, rate, limit
    case tooLarge, ended, denied, invalid, draining

    public var name: String {
        switch self {
        case .memory: "memory"
        case .room: "room"
        case .rate: "publish-rate"
        case .limit: "limit"
        case .tooLarge: "too-large"
        case .ended: "ended"
        case .denied: "denied"
        case .invalid: "invalid"
        case .draining: "draining"
        }
    }

    /// Those for which the broker, and not the publish, was at fault.
    public static let shortages: [PublishLoss] = [.memory, .room, .rate, .limit]
    /// What `$SYS.stats` calls those that were lost to a shortage.
    var field: String {
        switch self {
        case .memory: "lost_to_memory"
        case .room: "lost_to_room"
        case .rate: "lost_to_publish_rate"
        default: "lost_to_limit"
        }
    }
    public var isShortage: Bool { rawValue <= PublishLoss.limit.rawValue }

    init(_ refusal: Refusal) {
        switch refusal.word {
        case .limit where refusal.limit == .memory: self = .memory
        case .blocked, .timeout: self = .room
        case .limit: self = .limit
        case .tooLarge: self = .tooLarge
        case .ended, .topicFailed: self = .ended
        case .forbidden, .unauthenticated: self = .denied
        case .draining, .unavailable: self = .draining
        case .invalid, .unsupported, .protocol, .credit, .notFound, .gap, .overflow, .closedByOperator, .store, .publisher:
            self = .invalid
        }
    }
}

extension ShardCounters {
    /// Fire publishes that were not taken.
    public var fireDropped: UInt64 { publishesDropped.total }

    /// Publishes that were dropped or refused for a shortage.
    public func lost(to shortage: PublishLoss) -> UInt64 {
        publishesDropped[shortage] &+ publishesRefused[shortage]
    }

    public var lost: UInt64 { PublishLoss.shortages.reduce(0) { $0 &+ lost(to: $1) } }

    /// What was lost since `before`, for the log; nil if nothing was.
    func lossRecord(since before: ShardCounters) -> LogRecord? {
        guard lost != before.lost else { return nil }
        var (dropped, refused): (UInt64, UInt64) = (0, 0)
        var reasons: [String] = []
        for shortage in PublishLoss.shortages where lost(to: shortage) != before.lost(to: shortage) {
            reasons.append(shortage.name)
            dropped &+= publishesDropped[shortage] &- before.publishesDropped[shortage]
            refused &+= publishesRefused[shortage] &- before.publishesRefused[shortage]
        }
        var fields: [LogField] = [
            ("limit", reasons.joined(separator: ",")), ("dropped", dropped), ("refused", refused),
        ]
        // Messages that were refused before they were complete are of no topic that is known.
        if !lostTopic.isEmpty { fields.append(("topic", lostTopic)) }
        return LogRecord(level: .warning, message: "publishes lost", fields: fields)
    }
}

/// Publishes to one topic that came to nothing.
struct TopicLosses: Sendable {
    /// Fire publishes that were not taken.
    var dropped: UInt64 = 0
    /// Others that were refused.
    var refused: UInt64 = 0
    /// When one of them was lost to a shortage last, on the monotonic clock; 0 if none was.
    var shortAt: UInt64 = 0
    /// Those that were, by the shortage.
    var short = InlineArray<4, UInt64>(repeating: 0)

    mutating func add(_ other: TopicLosses) {
        dropped &+= other.dropped
        refused &+= other.refused
        shortAt = Swift.max(shortAt, other.shortAt)
        for index in short.indices { short[index] &+= other.short[index] }
    }
}

/// The last publish that was lost for a shortage.
public struct LastLoss: Sendable {
    /// On the monotonic clock.
    public var at: UInt64
    public var topic: String
    public var reason: PublishLoss
}

final class PublishLosses: ShardPart {
    let topics: TopicTable
    let reports: Reports

    init(_ context: ShardContext, _ topics: TopicTable, _ reports: Reports) {
        self.topics = topics
        self.reports = reports
        super.init(context)
    }

    /// Fire publishes to a topic that lives here were not taken.
    func dropped(_ loss: PublishLoss, of topic: Topic) {
        counters.publishesDropped[loss] &+= 1
        note(loss, of: topic, TopicLosses(dropped: 1))
    }

    /// Those to a topic that may live elsewhere, or not at all.
    func dropped(_ loss: PublishLoss, of target: PublishTarget) {
        guard let place = target.place, let topic = topics[place] else { return dropped(loss, of: target.name) }
        dropped(loss, of: topic)
    }

    /// - Parameter topic: nil where that is not known.
    func dropped(_ loss: PublishLoss, of topic: String?, count: Int = 1) {
        counters.publishesDropped[loss] &+= UInt64(count)
        note(loss, of: topic, TopicLosses(dropped: UInt64(count)))
    }

    /// A publish to a topic that lives here was refused.
    func refusedPublish(_ refusal: Refusal, of topic: Topic) {
        let loss = PublishLoss(refusal)
        countRefusal(loss)
        note(loss, of: topic, TopicLosses(refused: 1))
    }

    /// One to a topic that may live elsewhere, or not at all.
    func refusedPublish(_ refusal: Refusal, of topic: String) { refusedPublish(PublishLoss(refusal), of: topic) }

    func refusedPublish(_ loss: PublishLoss, of topic: String) {
        countRefusal(loss)
        note(loss, of: topic, TopicLosses(refused: 1))
    }

    /// The topic itself counts it, whoever has its name by now.
    private func note(_ loss: PublishLoss, of topic: Topic, _ losses: TopicLosses) {
        topic.losses.add(noteShortage(loss, of: topic.name, losses))
    }

    /// The topic's owner counts it for the topic that has the name.
    private func note(_ loss: PublishLoss, of topic: String?, _ losses: TopicLosses) {
        let losses = noteShortage(loss, of: topic, losses)
        guard let topic else { return }
        let owner = owner(of: topic)
        if owner == index { topics[topic]?.losses.add(losses) } else { reports.add(losses, of: topic, to: owner) }
    }

    /// - Returns: the losses, with what the topic counts of a shortage.
    private func noteShortage(_ loss: PublishLoss, of topic: String?, _ losses: TopicLosses) -> TopicLosses {
        guard loss.isShortage else { return losses }
        counters.lastLoss = LastLoss(at: moment.monotonic, topic: topic ?? "", reason: loss)
        if let topic { counters.lostTopic = topic }
        var losses = losses
        losses.shortAt = moment.monotonic
        losses.short[loss.rawValue] = losses.dropped &+ losses.refused
        return losses
    }

    /// A message was refused before it was complete. What takes so much room is a publish, of a topic that is not known
    /// here.
    func refusedUnfinished(_ loss: PublishLoss) {
        countRefusal(loss)
        note(loss, of: nil, TopicLosses())
    }

    private func countRefusal(_ loss: PublishLoss) {
        counters.publishesRefused[loss] &+= 1
        if loss == .memory { memory.noteRefusal() }
    }
}
