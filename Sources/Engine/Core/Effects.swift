// Effects: what the engine and its driver exchange: instants, handles, and the effects to carry out.

/// A moment, read once by the driver for a whole batch of inputs.
public struct Instant: Sendable {
    /// Nanoseconds on a clock that never goes back.
    public var monotonic: UInt64
    /// Nanoseconds since 1970, for timestamps.
    public var wall: Int64

    public init(monotonic: UInt64, wall: Int64) {
        self.monotonic = monotonic
        self.wall = wall
    }
}

/// Identifies a connection of one shard. A stale identifier is harmless: its generation no longer matches.
public struct ConnectionID: Hashable, Sendable {
    public var index: UInt32
    public var generation: UInt32

    public init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}

/// A field of a log line.
public typealias LogField = (key: String, value: any LogValue)

/// The value of a field: text, or an integer, which is a number in JSON too. Integers that may exceed the precision of
/// JSON readers, such as epochs, are passed as text.
public protocol LogValue: Sendable {}

extension String: LogValue {}
extension Int: LogValue {}
extension Int64: LogValue {}
extension UInt64: LogValue {}

/// A line for the log, made by the engine and written by the server.
public struct LogRecord: Sendable {
    public enum Level: Int, Sendable, Comparable {
        case debug, info, warning, error
        public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
    }
    public var level: Level
    public var message: String
    public var fields: [LogField]
    /// Whether clients can cause this record arbitrarily often. If so, at most one per second is written, with a count.
    public var isFrequent: Bool

    public init(level: Level, message: String, fields: [LogField], isFrequent: Bool = false) {
        self.level = level
        self.message = message
        self.fields = fields
        self.isFrequent = isFrequent
    }

    /// The record of a login that failed.
    /// - Parameters:
    ///   - cause: what the client received; it contains no secret and nothing that the client sent.
    ///   - listener: the listener that received the login.
    ///   - peer: the client's address and port.
    public static func loginRefused(
        _ cause: String, _ claim: LoginClaim, over listener: String, _ peer: String
    ) -> LogRecord {
        var fields: [LogField] = [("cause", cause)]
        switch claim {
        case .user(let name): fields.append(("user", name))
        case .unknown: fields.append(("unknown-user", "yes"))
        case .none: break
        }
        fields += [("protocol", listener), ("address", Connection.address(of: peer))]
        return LogRecord(level: .warning, message: "login refused", fields: fields, isFrequent: true)
    }
}

/// The result of reviewing everything open after permissions changed.
public struct Review: Sendable {
    /// The new permissions.
    public let access: AccessTable
    /// Streams and RSocket connections that were ended, including those ended by an earlier review that this one
    /// replaced.
    public internal(set) var streams = 0
    public internal(set) var connections = 0

    init(_ access: AccessTable) { self.access = access }

    /// Adds the counts of an earlier review that will not be finished.
    mutating func takeOver(_ other: Review?) {
        streams += other?.streams ?? 0
        connections += other?.connections ?? 0
    }
}

/// Work for the driver, which drains the arrays after each batch of inputs. The arrays are reused.
public struct Effects {
    /// Connections with output: call `gather`, write, call `wrote`.
    public var flush: [ConnectionID] = []
    /// Connections to close now. The engine has already removed them.
    public var close: [ConnectionID] = []
    /// Connections on which to pause (`false`) or resume (`true`) reading.
    public var reading: [(ConnectionID, Bool)] = []
    /// Sockets that move to another connection, on this shard or another. `Shard.takeOver` accepts each socket there;
    /// nothing may be read from a socket before that.
    public var handovers: [Handover] = []
    /// Messages for other shards, by shard index.
    public var messages: [[ShardMessage]]
    /// Delivered after all of `messages`: an acknowledgement must not overtake its message on the way to other shards.
    public var deferredMessages: [[ShardMessage]]
    public var log: [LogRecord] = []
    /// Set when everything open has been reviewed after a change of permissions.
    public var reviewed: Review?
    /// Credentials to verify, on another thread if that takes a long time. `authenticated` takes each result.
    public var logins: [LoginRequest] = []

    /// Answers to queries of the admin listener.
    public var answers: [(job: UInt64, answer: ShardAnswer)] = []

    /// Requests to the store that keeps topics.
    public var store: [StoreRequest] = []
    /// Requests to the upstream that connects shared topics.
    public var upstream: [UpstreamRequest] = []

    /// No effects, for a broker with this number of `shards`.
    public init(shards: Int) {
        messages = Array(repeating: [], count: shards)
        deferredMessages = messages
    }

    /// Whether nothing is left to do for connections, other shards, the store or the log.
    public var isEmpty: Bool {
        flush.isEmpty && close.isEmpty && reading.isEmpty && handovers.isEmpty && log.isEmpty && logins.isEmpty
            && store.isEmpty && upstream.isEmpty && answers.isEmpty
            && messages.allSatisfy(\.isEmpty) && deferredMessages.allSatisfy(\.isEmpty)
    }

    /// Takes the messages for other shards, in batches of about `Limits.messagesAtOnce`: all of `messages`, then
    /// `deferredMessages`.
    public mutating func takeMessages(_ deliver: (_ batch: [ShardMessage], _ shard: Int) -> Void) {
        for shard in messages.indices where !messages[shard].isEmpty {
            Effects.take(&messages[shard]) { deliver($0, shard) }
        }
        for shard in deferredMessages.indices where !deferredMessages[shard].isEmpty {
            Effects.take(&deferredMessages[shard]) { deliver($0, shard) }
        }
    }

    private static func take(_ messages: inout [ShardMessage], _ deliver: ([ShardMessage]) -> Void) {
        var all: [ShardMessage] = []
        swap(&all, &messages)
        guard all.count > Limits.messagesAtOnce else { return deliver(all) }
        var rest = all[...]
        while !rest.isEmpty {
            var count = min(Limits.messagesAtOnce, rest.count)
            while count < rest.count, rest[rest.startIndex + count - 1].needsNext { count += 1 }
            deliver(Array(rest.prefix(count)))
            rest.removeFirst(count)
        }
    }
}
