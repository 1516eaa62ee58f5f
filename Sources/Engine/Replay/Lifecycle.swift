// Where a subscription begins, and the ways in which a topic and a subscription end.

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
