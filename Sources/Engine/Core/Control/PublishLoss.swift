// PublishLoss: counts of failed publishes by reason: fire-and-forget ones as dropped, all others as refused. Publishes
// lost to a shortage in the broker are also logged, once a second.

/// Why a publish failed.
public enum PublishLoss: Int, TallyKey {
    case memory, room, rate, limit, store
    case tooLarge, ended, denied, invalid, draining, unavailable

    public var name: String {
        switch self {
        case .memory: "memory"
        case .room: "room"
        case .rate: "publish-rate"
        case .limit: "limit"
        case .store: "store"
        case .tooLarge: "too-large"
        case .ended: "ended"
        case .denied: "denied"
        case .invalid: "invalid"
        case .draining: "draining"
        case .unavailable: "unavailable"
        }
    }

    /// Reasons for which the broker, not the publish, is responsible.
    public static let shortages: [PublishLoss] = [.memory, .room, .rate, .limit, .store]
    /// The field in `$SYS.stats` that counts publishes lost to this shortage.
    var field: String {
        switch self {
        case .memory: "lost_to_memory"
        case .room: "lost_to_room"
        case .rate: "lost_to_publish_rate"
        case .store: "lost_to_store"
        default: "lost_to_limit"
        }
    }
    public var isShortage: Bool { rawValue <= PublishLoss.store.rawValue }

    init(_ refusal: Refusal) {
        switch refusal.word {
        case .limit where refusal.limit == .memory: self = .memory
        case .blocked, .timeout: self = .room
        case .limit: self = .limit
        case .store: self = .store
        case .tooLarge: self = .tooLarge
        case .ended, .topicFailed: self = .ended
        case .forbidden, .unauthenticated: self = .denied
        case .draining: self = .draining
        case .unavailable: self = .unavailable
        case .invalid, .unsupported, .protocol, .credit, .notFound, .gap, .overflow, .closedByOperator,
            .publisher:
            self = .invalid
        }
    }
}

extension ShardCounters {
    /// Fire-and-forget publishes that were dropped.
    public var fireAndForgetDropped: UInt64 { publishesDropped.total }

    /// Publishes that were dropped or refused because of a shortage.
    public func lost(to shortage: PublishLoss) -> UInt64 {
        publishesDropped[shortage] &+ publishesRefused[shortage]
    }

    public var lost: UInt64 { PublishLoss.shortages.reduce(0) { $0 &+ lost(to: $1) } }

    /// Losses since `before`, for the log; nil if there were none.
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
        // The topic of a message that was refused before it was complete is unknown.
        if !lostTopic.isEmpty { fields.append(("topic", lostTopic)) }
        return LogRecord(level: .warning, message: "publishes lost", fields: fields)
    }
}

/// Failed publishes to one topic.
struct TopicLosses: Sendable, EmptyInitializable {
    /// Fire-and-forget publishes that were dropped.
    var dropped: UInt64 = 0
    /// Other publishes that were refused.
    var refused: UInt64 = 0
    /// When the last of them was lost to a shortage, on the monotonic clock; 0 if none was.
    var shortAt: UInt64 = 0
    /// Losses by shortage.
    var short = InlineArray<5, UInt64>(repeating: 0)

    mutating func add(_ other: TopicLosses) {
        dropped &+= other.dropped
        refused &+= other.refused
        shortAt = Swift.max(shortAt, other.shortAt)
        for index in short.indices { short[index] &+= other.short[index] }
    }
}

/// The last publish that was lost to a shortage.
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

    /// Counts a dropped fire-and-forget publish to a topic that this shard owns.
    func dropped(_ loss: PublishLoss, of topic: Topic) {
        counters.publishesDropped[loss] &+= 1
        note(loss, of: topic, TopicLosses(dropped: 1))
    }

    /// Counts a dropped fire-and-forget publish to a topic on any shard, or to one that does not exist.
    func dropped(_ loss: PublishLoss, of target: PublishTarget) {
        guard let place = target.place, let topic = topics[place] else { return dropped(loss, of: target.name) }
        dropped(loss, of: topic)
    }

    /// - Parameter topic: nil if unknown.
    func dropped(_ loss: PublishLoss, of topic: String?, count: Int = 1) {
        counters.publishesDropped[loss] &+= UInt64(count)
        note(loss, of: topic, TopicLosses(dropped: UInt64(count)))
    }

    /// Counts a refused publish to a topic that this shard owns.
    func refusedPublish(_ refusal: Refusal, of topic: Topic) {
        let loss = PublishLoss(refusal)
        countRefusal(loss)
        note(loss, of: topic, TopicLosses(refused: 1))
    }

    /// Counts a refused publish to a topic on any shard, or to one that does not exist.
    func refusedPublish(_ refusal: Refusal, of topic: String) { refusedPublish(PublishLoss(refusal), of: topic) }

    func refusedPublish(_ loss: PublishLoss, of topic: String) {
        countRefusal(loss)
        note(loss, of: topic, TopicLosses(refused: 1))
    }

    /// Counts a loss for this topic, even if its name now refers to a different one.
    private func note(_ loss: PublishLoss, of topic: Topic, _ losses: TopicLosses) {
        topic.losses.value.add(noteShortage(loss, of: topic.name, losses))
    }

    /// Counts a loss for the topic that currently has this name, on its owner.
    private func note(_ loss: PublishLoss, of topic: String?, _ losses: TopicLosses) {
        let losses = noteShortage(loss, of: topic, losses)
        guard let topic else { return }
        let owner = owner(of: topic)
        if owner == index { topics[topic]?.losses.value.add(losses) } else { reports.add(losses, of: topic, to: owner) }
    }

    /// - Returns: the losses, including what the topic counts as a shortage.
    private func noteShortage(_ loss: PublishLoss, of topic: String?, _ losses: TopicLosses) -> TopicLosses {
        guard loss.isShortage else { return losses }
        counters.lastLoss = LastLoss(at: moment.monotonic, topic: topic ?? "", reason: loss)
        if let topic { counters.lostTopic = topic }
        var losses = losses
        losses.shortAt = moment.monotonic
        losses.short[loss.rawValue] = losses.dropped &+ losses.refused
        return losses
    }

    /// Counts a message that was refused before it was complete. Only publishes are that large. The message's topic is
    /// unknown here.
    func refusedUnfinished(_ loss: PublishLoss) {
        countRefusal(loss)
        note(loss, of: nil, TopicLosses())
    }

    private func countRefusal(_ loss: PublishLoss) {
        counters.publishesRefused[loss] &+= 1
        if loss == .memory { memory.noteRefusal() }
    }
}
