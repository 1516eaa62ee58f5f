// TopicRule: the configuration of topics that match a pattern.

public struct TopicRule: Equatable, Sendable {
    public var match: TopicPattern
    /// Messages, bytes and nanoseconds, as in `Limits`; nil uses the limit for all topics.
    public var retain: Int?
    public var retainBytes: Int?
    public var retainAge: UInt64?

    public init(match: TopicPattern, retain: Int? = nil, retainBytes: Int? = nil, retainAge: UInt64? = nil) {
        self.match = match
        self.retain = retain
        self.retainBytes = retainBytes
        self.retainAge = retainAge
    }
}

/// The retention limits of one topic.
public struct Retention: Equatable, Sendable {
    /// Messages kept for replay.
    public var messages: Int
    /// Bytes that the topic's log may hold.
    public var bytes: Int
    /// Nanoseconds after which a message is no longer kept for replay; 0 means never.
    public var age: UInt64

    public init(messages: Int, bytes: Int, age: UInt64) {
        self.messages = messages
        self.bytes = bytes
        self.age = age
    }
}
