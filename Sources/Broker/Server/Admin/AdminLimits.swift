// AdminLimits: all limits of the admin listener.

enum AdminLimits {
    /// Maximum number of connections; further ones are closed at once.
    static let connections = 64
    /// Maximum number of lingering TLS connections in addition; beyond it, the oldest is closed.
    static let lingering = 64
    /// Maximum number of files for all of these: over TLS, a connection has a socket pair in addition to its socket.
    static let files = 3 * connections + lingering
    /// Maximum number of queries to the shards in progress, besides control calls; others are queued, one per
    /// connection.
    static let jobs = 4
    /// Nanoseconds that the shards have to respond. Missing responses are reported as such.
    static let patience: UInt64 = 2_000_000_000
    /// Nanoseconds without progress in reading an answer after which a client gives way to new ones.
    static let pause: UInt64 = 2_000_000_000
    /// Nanoseconds that a connection may be idle, or may take to send a request or read an answer.
    static let silence: UInt64 = 30_000_000_000
    /// Maximum bytes of a request's target.
    static let target = 8 << 10
    /// Maximum bytes of a request's body, which is ignored.
    static let body = 64 << 10
    /// Maximum and default number of items in a page of a list.
    static let largestPage = 1000
    static let page = 100
    /// Maximum number of rows of a table that a request can reach, skipped and returned ones together.
    static let reach = 10_000
    /// Maximum and default number of topics with their own metrics; and of subscriptions, on request.
    static let topics = 1000
    static let topicsByDefault = 100
    static let subscriptions = 1000
}
