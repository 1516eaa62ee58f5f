// The choices a subscriber makes (where to begin, what happens when its buffer is full), and the ways in which a topic
// and a subscription end.

/// What happens to a message that cannot be handed over while as many wait as the subscription's limit allows.
public enum Overflow: UInt8, Sendable, CaseIterable {
    /// The oldest one waiting goes, the arriving one waits.
    case dropOldest
    /// The arriving one is refused.
    case dropNewest
    /// The last one waiting gives way to the arriving one.
    case replaceNewest
    /// Only the newest waits, whatever buffer and replay say.
    case latest
    /// The subscription takes nothing more; what waits is delivered, then it ends with an overflow error.
    case fail
    /// It waits all the same: publishers are granted no more than there is room for (`Subscription.horizon`).
    case block

    /// The policy's name in subscription options.
    public var name: String {
        switch self {
        case .dropOldest: "drop-oldest"
        case .dropNewest: "drop-newest"
        case .replaceNewest: "replace-newest"
        case .latest: "latest"
        case .fail: "fail"
        case .block: "block"
        }
    }

    /// The policy of that name, exactly as `name` spells it.
    public init?(name: some StringProtocol) {
        guard let policy = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = policy
    }
}

/// Where a subscription begins.
public enum Start: Sendable, Hashable {
    /// With the next message appended.
    case next
    /// With the last so many retained messages, or all there are.
    case last(UInt64)
    /// With everything retained.
    case all
    /// At this message. One no longer retained begins at the oldest retained, one beyond the next at the next; both
    /// are a gap.
    case from(SequenceNumber)
}

/// How a topic ended.
public enum TopicEnd: Sendable, Hashable {
    case completed, failed
}

/// Why a subscription overflowed.
public enum OverflowCause: Sendable, Hashable {
    /// More had to wait than its buffer holds.
    case buffer
    /// What waited was evicted, because the topic's log reached its limit of bytes.
    case bytes
    /// It kept publishers waiting beyond the limit of time.
    case blockedTooLong
}

/// The terminal event of a subscription.
public enum End: Sendable, Hashable {
    case completed
    case topicFailed
    case overflow(OverflowCause)
}
