// UpstreamStatus: the state of the connection to NATS JetStream, over which topics are shared with other nodes. The
// upstream computes it; metrics, health, the admin listener's lists and `$SYS.stats` show it.

/// What has happened since the broker started. All counts only grow.
public struct UpstreamCounts: Sendable, Equatable {
    /// Connections made.
    public var connections: UInt64 = 0
    /// Messages read from streams.
    public var read: UInt64 = 0
    /// Messages that no server of JetStream had any longer when they were to be read.
    public var lost: UInt64 = 0
    /// This node's messages that were read back from their streams, and those that were refused.
    public var published: UInt64 = 0
    public var refused: UInt64 = 0
    /// This node's messages that were sent again because they had not been acknowledged.
    public var resent: UInt64 = 0

    public init() {}
}

/// Moments are nanoseconds on the monotonic clock.
public struct UpstreamStatus: Sendable, Equatable {
    /// Whether there is a connection and JetStream answers, and whether that was ever so.
    public var isConnected = false
    public var wasConnected = false
    /// When the connection was made or lost. Before the first one, when the broker started.
    public var since: UInt64
    /// The server's address, its own name and its version; empty without a connection.
    public var server = ""
    public var name = ""
    public var version = ""
    /// Why there is no connection; empty while there is one, and until the first attempt has failed.
    public var cause = ""
    /// How long NATS may be unreachable, in nanoseconds.
    public var time: UInt64
    /// Shared topics that are followed, and the limit on them.
    public var topics = 0
    public var maxTopics: Int
    /// Those of `topics` whose messages up to now have not been read yet, and those that do not exist yet.
    public var joining = 0
    public var absent = 0
    /// Messages that streams are known to have and that have not been read yet.
    public var unread = 0
    /// Publishes that are not acknowledged yet, and since when the oldest of them has waited.
    public var publishes = 0
    public var oldestPublish: UInt64?
    public var counts = UpstreamCounts()

    public init(since: UInt64, time: UInt64, maxTopics: Int) {
        self.since = since
        self.time = time
        self.maxTopics = maxTopics
    }

    /// For how many nanoseconds there has been no connection; 0 while there is one.
    public func disconnected(now: UInt64) -> UInt64 { isConnected ? 0 : now - Swift.min(since, now) }

    /// For how many nanoseconds the oldest publish has waited.
    public func publishWait(now: UInt64) -> UInt64 { oldestPublish.map { now - Swift.min($0, now) } ?? 0 }

    /// Whether NATS is unreachable for too long: subscriptions of shared topics have ended, and publishes are refused.
    public func isUnavailable(now: UInt64) -> Bool { !isConnected && disconnected(now: now) >= time }

    /// Why the broker should get no new clients: NATS has been unreachable for too long, or since the start. Nil if
    /// there is no reason.
    public func obstacle(now: UInt64) -> String? {
        if !isConnected, !wasConnected {
            return "NATS JetStream has not been reached yet" + (cause.isEmpty ? "" : ": \(cause)")
        }
        guard isUnavailable(now: now) else { return nil }
        let seconds = disconnected(now: now) / Limits.second
        return "NATS has been unreachable for \(seconds) s" + (cause.isEmpty ? "" : ": \(cause)")
    }

    /// A part of the broker's statistics.
    public func json(now: UInt64) -> String {
        var object = JSONObject()
        object.add("connected", isConnected)
        object.add("unavailable", isUnavailable(now: now))
        object.add("since_ms", (now - Swift.min(since, now)) / 1_000_000)
        if !server.isEmpty {
            object.add("server", server)
            object.add("server_name", name)
            object.add("server_version", version)
        }
        if !isConnected, !cause.isEmpty { object.add("cause", cause) }
        object.add("topics", topics)
        object.add("topics_limit", maxTopics)
        object.add("topics_joining", joining)
        object.add("topics_absent", absent)
        object.add("unread", unread)
        object.add("publishes_waiting", publishes)
        object.add("publish_wait_ms", publishWait(now: now) / 1_000_000)
        object.add("connections", counts.connections)
        object.add("read", counts.read)
        object.add("lost", counts.lost)
        object.add("published", counts.published)
        object.add("refused", counts.refused)
        object.add("resent", counts.resent)
        return object.finished()
    }
}
