// ModelOptions: what kind of cluster is modelled, and how often it fails by chance.

/// Options of a model. Times are nanoseconds.
public struct ModelOptions: Sendable {
    /// Servers in the cluster, 1 to 5. Streams can have up to as many replicas.
    public var servers = 1
    /// The most bytes of headers and payload that a client may publish.
    public var maxPayload = 1 << 20
    /// Bytes that may wait for a client. A client that reads too slowly is disconnected.
    public var maxPending = 64 << 20
    /// The time between PINGs to a client; 0 for none. A client that does not answer two is disconnected.
    public var pingInterval: UInt64 = 120_000_000_000
    /// The wall clock at time 0, in nanoseconds since 1970.
    public var wallClock: Int64 = 1_767_225_600_000_000_000
    public var faults = ModelFaults()

    public init() {}
}

/// What goes wrong by chance. Everything is off at first. Times are nanoseconds; each delay is chosen from 0 to the
/// limit. A count of N means once in N cases, and 0 never.
public struct ModelFaults: Sendable {
    /// Limits for the delays of answers of the API, of acknowledgements, and of other messages. Messages with one
    /// subject stay in order on a connection.
    public var answerDelay: UInt64 = 0
    public var acknowledgementDelay: UInt64 = 0
    public var liveDelay: UInt64 = 0
    /// A limit for the time from a publish until it is committed, on streams with several replicas. Until then it is in
    /// no answer, and a leader change may lose it.
    public var commitDelay: UInt64 = 0
    /// A limit for the time without a leader after `changeLeader`. In the first half, requests are not answered; in the
    /// second, the answer is that nobody is there.
    public var electionTime: UInt64 = 0
    /// A limit for the time from the creation of a stream until requests and publishes reach it. Until then nobody is
    /// there, even after the answer to the creation.
    public var creationTime: UInt64 = 0
    /// A limit for how far the clocks of leaders differ from `wallClock`, in both directions.
    public var clockSkew: UInt64 = 0
    /// Whether messages of a new leader may overtake those of the former one, which was on another server.
    public var newLeaderOvertakes = false

    /// Acknowledgements that are lost, although the message is stored.
    public var lostAcknowledgements = 0
    /// Republished messages that are lost on the way to one subscription.
    public var lostRepublished = 0
    /// Answers of the API that are lost.
    public var lostAnswers = 0
    /// Acknowledgements and republished messages that are delivered twice.
    public var duplicates = 0
    /// Requests and publishes that are answered with "temporarily unavailable" or "no responders".
    public var unavailable = 0
    /// Direct gets that are answered by a replica that lags: it has not got up to `maxLag` of the newest messages yet,
    /// or some in the middle.
    public var lagging = 0
    public var maxLag = 8

    public init() {}
}

/// Faults that happen at the next opportunities, each as often as its count says. A test sets them.
public struct PlannedFaults: Equatable, Sendable {
    public var lostAcknowledgements = 0
    public var lostRepublished = 0
    public var lostAnswers = 0
    /// Acknowledgements or republished messages.
    public var duplicates = 0
    /// Requests or publishes.
    public var unavailable = 0

    public init() {}
}
