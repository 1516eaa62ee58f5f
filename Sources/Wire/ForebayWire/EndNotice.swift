// EndNotice: the notice to a subscription to a pattern that one of its topics has ended. It uses no credit.

/// The end of one topic of a pattern, as its subscriptions are notified of it.
public struct EndNotice: Equatable, Sendable {
    /// The topic's name.
    public var topic: String
    public var epoch: UInt64
    /// Why the topic failed, beginning with `topic failed:`; nil if it completed.
    public var failure: String?
    /// Messages that the subscription lost after the topic's last one that it received.
    public var dropped: UInt64
    /// Whether the subscription received no message of the topic and did not resume where the client asked.
    public var restarts: Bool

    public init(topic: String, epoch: UInt64, failure: String?, dropped: UInt64, restarts: Bool) {
        self.topic = topic
        self.epoch = epoch
        self.failure = failure
        self.dropped = dropped
        self.restarts = restarts
    }
}
