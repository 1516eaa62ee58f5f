// What goes between the engine and the loop that drives it: moments, handles, and effects to carry out.

/// A moment, as the loop read it once for a whole batch of inputs.
public struct Instant: Sendable {
    /// Nanoseconds of a clock that never steps back.
    public var monotonic: UInt64
    /// Nanoseconds since 1970, for timestamps.
    public var wall: Int64

    public init(monotonic: UInt64, wall: Int64) {
        self.monotonic = monotonic
        self.wall = wall
    }
}

/// Names a connection of one shard. A stale one is harmless: its generation no longer matches.
public struct ConnectionID: Hashable, Sendable {
    public var index: UInt32
    public var generation: UInt32

    public init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}

/// A particular of a line of the log.
public typealias LogField = (key: String, value: any LogValue)

/// What a field may hold: a text, or a whole number, which is one in JSON too. What may have more digits than readers
/// of JSON keep, such as an epoch, is given as a text.
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
    /// Anybody may cause it as often as he likes: one a second is written, which tells how many it stands for.
    public var isFrequent: Bool

    public init(level: Level, message: String, fields: [LogField], isFrequent: Bool = false) {
        self.level = level
        self.message = message
        self.fields = fields
        self.isFrequent = isFrequent
    }

    /// A login that came to nothing.
    /// - Parameters:
    ///   - cause: what the client was told; there is no secret in it, and nothing of what the client sent.
    ///   - listener: the one it came to.
    ///   - peer: address and port.
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

/// What came of looking at all that is open once there were other permissions.
public struct Review: Sendable {
    /// By which it was looked at.
    public let access: AccessTable
    /// Streams, and connections of RSocket, that ended for them; or that earlier permissions had ended when these came.
    public internal(set) var streams = 0
    public internal(set) var connections = 0

    init(_ access: AccessTable) { self.access = access }

    /// Goes on with what another one, that will not come to its end, has counted.
    mutating func takeOver(_ other: Review?) {
        streams += other?.streams ?? 0
        connections += other?.connections ?? 0
    }
}

/// What the driver must carry out. The arrays are drained by the driver after each batch of inputs and reused.
public struct Effects {
    /// Connections with output: `gather`, write, `wrote`.
    public var flush: [ConnectionID] = []
    /// Connections to close now; the engine has already forgotten them.
    public var close: [ConnectionID] = []
    /// Connections whose reading is to be paused (`false`) or taken up again (`true`).
    public var reading: [(ConnectionID, Bool)] = []
    /// Sockets that go over to another connection, on this shard or another: `Shard.takeOver` there takes each, and
    /// nothing is to be read from it before.
    public var handovers: [Handover] = []
    /// Messages for other shards, by shard index: to be put in their inboxes as one batch each, by `takeMail`.
    public var mail: [[ShardMessage]]
    /// As `mail`, but put in the inboxes after all of it: what makes a message known to its publisher must not overtake
    /// the message on its way to other shards.
    public var lateMail: [[ShardMessage]]
    public var log: [LogRecord] = []
    /// All that is open was looked at by new permissions.
    public var reviewed: Review?
    /// Credentials to be looked at, on another thread if it takes long: `authenticated` takes each answer.
    public var logins: [LoginRequest] = []

    /// For the store that keeps topics.
    public var store: [StoreRequest] = []

    /// None yet, in a broker of `shards`.
    public init(shards: Int) {
        mail = Array(repeating: [], count: shards)
        lateMail = mail
    }

    /// Nothing is to be carried out that a connection, another shard or the log waits for.
    public var isEmpty: Bool {
        flush.isEmpty && close.isEmpty && reading.isEmpty && handovers.isEmpty && log.isEmpty && logins.isEmpty
            && store.isEmpty
            && mail.allSatisfy(\.isEmpty) && lateMail.allSatisfy(\.isEmpty)
    }

    /// Takes what other shards are to be told, each batch for one shard's inbox: all of `mail`, then `lateMail`.
    public mutating func takeMail(_ deliver: (_ batch: [ShardMessage], _ shard: Int) -> Void) {
        for shard in mail.indices where !mail[shard].isEmpty { deliver(Effects.take(&mail[shard]), shard) }
        for shard in lateMail.indices where !lateMail[shard].isEmpty { deliver(Effects.take(&lateMail[shard]), shard) }
    }

    private static func take(_ mail: inout [ShardMessage]) -> [ShardMessage] {
        var batch: [ShardMessage] = []
        swap(&batch, &mail)
        return batch
    }
}
