// ResumePosition: where a subscription to a pattern continues in one of its topics.

/// A position in a topic, with which a subscription to a pattern resumes.
public struct ResumePosition: Equatable, Sendable {
    public var topic: String
    /// At least 1.
    public var epoch: UInt64
    /// The sequence of the next message, at least 1.
    public var sequence: UInt64

    public init(topic: String, epoch: UInt64, sequence: UInt64) {
        self.topic = topic
        self.epoch = epoch
        self.sequence = sequence
    }
}
