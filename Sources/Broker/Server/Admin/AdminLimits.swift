// Every figure that bounds the admin listener.

enum AdminLimits {
    /// Connections at a time; one more is closed at once.
    static let connections = 64
    /// Those that linger over TLS beside them; one more closes the oldest.
    static let lingering = 64
    /// Files that all of these take at most: over TLS a connection has a pair of sockets beside its client's.
    static let files = 3 * connections + lingering
    /// Questions to the shards that are under way at a time; the others wait for their turn, one of each connection.
    static let jobs = 4
    /// Nanoseconds that the shards have to answer. What is missing then is told to be missing.
    static let patience: UInt64 = 2_000_000_000
    /// Nanoseconds that a client may take nothing of its answer before it gives way to who comes.
    static let pause: UInt64 = 2_000_000_000
    /// Nanoseconds that a connection may be without a request, or take to send one or to read an answer.
    static let silence: UInt64 = 30_000_000_000
    /// Bytes of a request's target.
    static let target = 8 << 10
    /// Bytes of a request's body, which nobody reads.
    static let body = 64 << 10
    /// Items of a page of a list, at most and unless told otherwise.
    static let largestPage = 1000
    static let page = 100
    /// Rows of a picture's table, in its order, that can be asked for: those skipped and those told.
    static let reach = 10_000
    /// Topics with metrics of their own, at most and unless told otherwise; and subscriptions, if asked for.
    static let topics = 1000
    static let topicsByDefault = 100
    static let subscriptions = 1000
}
