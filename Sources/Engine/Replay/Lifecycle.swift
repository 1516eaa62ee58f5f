// Lifecycle: where a subscription begins, and how topics and subscriptions end.

/// Where a subscription begins.
public enum Start: Sendable, Hashable {
    /// With the next message appended.
    case next
    /// With the last n retained messages, or all of them if there are fewer.
    case last(UInt64)
    /// With all retained messages.
    case all
    /// At this message. If it is no longer retained, the subscription begins at the oldest retained message; if it is
    /// beyond the next message, at the next one. Either case is a gap.
    case from(SequenceNumber)
}

/// How a topic ended.
public enum TopicEnd: Sendable, Hashable {
    case completed, failed
}

/// Why a subscription overflowed.
public enum OverflowCause: Sendable, Hashable {
    /// More messages had to wait than its buffer holds.
    case buffer
    /// Waiting messages were evicted, because the topic's log reached its byte limit.
    case bytes
    /// Messages were lost where the topic's log comes from.
    case lost
    /// The subscription held publishers back for longer than the time limit.
    case blockedTooLong
}

/// The terminal event of a subscription.
public enum End: Sendable, Hashable {
    case completed
    case topicFailed
    case overflow(OverflowCause)
}
