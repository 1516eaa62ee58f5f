// SubscribeOptions: how to subscribe, with the names that every protocol of the broker's has for it.

/// The options of a subscription. What is nil is left to the broker.
public struct SubscribeOptions: Equatable, Sendable {
    /// Where a subscription begins.
    public enum Start: Equatable, Sendable {
        /// With the next message.
        case next
        /// With the last so many retained messages.
        case last(UInt32)
        /// With the oldest retained message.
        case all
        /// At this sequence, of this epoch; nil is the topic's present one.
        case from(UInt64, epoch: UInt64?)
    }

    /// What a gap at the start does.
    public enum Gap: String, CaseIterable, Sendable {
        case tell, fail
    }

    /// The message that it begins with, as far as that is retained.
    public var start = Start.next
    /// Messages that may wait without credit, 1 to 2³¹−1.
    public var buffer: UInt32?
    /// What happens to messages beyond `buffer`.
    public var overflow: Overflow?
    /// Where `meta` is off a gap cannot be told: then `from` refuses the subscription.
    public var gap: Gap?
    /// Each message comes with its MessageInfo and what the publisher gave it beside the payload.
    public var meta = false

    /// What comes from now on, as the broker's defaults have it.
    public init() {}
}
