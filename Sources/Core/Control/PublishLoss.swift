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
        case .ended: "topic-ended"
        case .denied: "denied"
        case .invalid: "invalid"
        case .draining: "draining"
        }
    }

    /// Those for which the broker, and not the publish, was at fault.
    public static let shortages: [PublishLoss] = [.memory, .room, .rate, .limit]

    init(_ refusal: Refusal) {
        switch refusal.kind {
        case .limit where refusal.limit == .memory: self = .memory
        case .blocked, .timeout: self = .room
        case .limit: self = .limit
        case .tooLarge: self = .tooLarge
        case .ended, .topicFailed: self = .ended
        case .forbidden, .unauthenticated: self = .denied
        case .unavailable: self = .draining
        case .invalid, .beyondCredit, .notFound, .gap, .overflow, .cutOff: self = .invalid
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
        return LogRecord(
            level: .warning, message: "publishes lost",
            fields: [
                ("limit", reasons.joined(separator: ",")), ("dropped", dropped), ("refused", refused),
                ("topic", lostTopic),
            ])
    }
}

extension Shard {
    /// Fire publishes were not taken.
    /// - Parameter topic: nil where that is not known.
    func dropped(_ loss: PublishLoss, of topic: String?, count: Int = 1) {
        counters.publishesDropped[loss] &+= UInt64(count)
        if let topic { counters.lostTopic = topic }
    }

    /// A publish was refused.
    func refusedPublish(_ refusal: Refusal, of topic: String) {
        countRefusal(PublishLoss(refusal))
        counters.lostTopic = topic
    }

    /// A message was refused before it was complete, for want of memory. What takes so much room is a publish, of a
    /// topic that is not known here.
    func refusedUnfinished() { countRefusal(.memory) }

    private func countRefusal(_ loss: PublishLoss) {
        counters.publishesRefused[loss] &+= 1
        if loss == .memory { memory.noteRefusal() }
    }
}
