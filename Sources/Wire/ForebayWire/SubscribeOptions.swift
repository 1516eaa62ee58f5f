// SubscribeOptions: the options of a subscription, with the names that all protocols of the broker use.

/// The options of a subscription. Nil means the broker's default.
public struct SubscribeOptions: Equatable, Sendable {
    /// Where a subscription begins.
    public enum Start: Equatable, Sendable {
        /// With the next message.
        case next
        /// With this many of the last retained messages.
        case last(UInt32)
        /// With the oldest retained message.
        case all
        /// At this sequence of this epoch; nil is the topic's current epoch.
        case from(UInt64, epoch: UInt64?)
        /// With the first retained message at or after this time.
        case since(StartTime)
    }

    /// What to do about a gap at the start.
    public enum Gap: String, CaseIterable, Sendable {
        case tell, fail
    }

    /// Where to begin, if the messages are retained.
    public var start = Start.next
    /// For a pattern: where to continue in some topics. Others begin at `start`.
    public var positions: [ResumePosition] = []
    /// Messages that may wait for credit, 1 to 2³¹−1.
    public var buffer: UInt32?
    /// What happens to messages that exceed `buffer`.
    public var overflow: Overflow?
    /// Without `meta`, a gap cannot be reported, so `from` then refuses the subscription.
    public var gap: Gap?
    /// Whether each message comes with its MessageInfo and the publisher's metadata.
    public var meta = false
    /// Whether the broker sends the position before the first message.
    public var opening = false

    /// New messages only, with the broker's defaults.
    public init() {}
}
