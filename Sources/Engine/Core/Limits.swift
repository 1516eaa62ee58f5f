// Every figure that bounds the broker, in one place. Each queue, table, buffer and retry names its limit here.

/// The bounds of one broker. Sizes are bytes and times nanoseconds unless the name says otherwise.
public struct Limits: Equatable, Sendable {
    // Topics
    /// Messages that a topic retains for replay.
    public var retain = 1024
    /// Bytes (payload, metadata and `messageOverhead` each) that a topic's log may hold.
    public var retainBytes = 16 << 20
    /// Age after which a retained message goes; 0 keeps it.
    public var retainAge: UInt64 = 0
    /// How long a topic without publisher or subscriber stays.
    public var topicIdle: UInt64 = 300 * second
    public var topics = 100_000
    /// What holds for some topics instead of the above: the first rule that matches a topic's name, none of the others.
    public var topicRules: [TopicRule] = []
    public static let mostTopicRules = 256
    /// Topics whose messages are visible and acknowledged only once a store has them.
    public var stored: [TopicPattern] = []
    /// Messages of such a topic that are not committed, above which publishers wait; their bytes are bounded by
    /// `retainBytes`.
    public var uncommitted = 65_536
    /// Bytes of memory that the newest messages of such a topic may take.
    public var resident = 16 << 20

    // Messages
    public var payload = 1 << 20
    /// Metadata of one message or request.
    public var metadata = 64 << 10
    /// The headers of an HTTP request, with 32 for each.
    public var headers = 16 << 10
    /// What a message is charged beside its bytes.
    public static let messageOverhead = 64
    /// Outgoing payloads above this are fragmented.
    public static let fragment = 64 << 10

    // Connections
    public var connections = 100_000
    public var connectionsPerAddress = 100_000
    public var streamsPerConnection = 10_000
    /// Lists (`$SYS.topics` …) of one connection at a time, each of which may hold a page of rows.
    public var listingsPerConnection = 16
    /// Bytes handed over to a connection and not yet taken by its socket, above which messages wait.
    public var output = 256 << 10
    /// Unread control output above which a connection is read no more.
    public var controlOutput = 64 << 10
    /// Bytes of messages that the streams of one HTTP/2 connection may have begun beyond what the peer's windows allow,
    /// since no message is begun in part. Above it a message that its window does not hold waits until others have
    /// gone; what the windows do allow counts in `output`.
    public var beyondWindows = 4 << 20
    /// The same as `controlOutput` where memory is short, and where an eighth more is used than there is.
    static let shortControl = 4 << 10
    static let leastControl = 512
    /// Answers, and frames of control, over HTTP/2 that wait to be written, above which the connection is read no more:
    /// while its socket takes nothing, or memory is short; and the same while clients have begun all they may.
    static let unwrittenAnswers = 8
    static let shortUnwrittenAnswers = 1
    static let unwrittenFrames = 64
    static let shortUnwrittenFrames = 8
    public var keepaliveData = 1 << 10
    /// Unread control output above which acknowledgements wait, each channel's latest taking the place of earlier ones.
    public var acknowledgementBacklog = 4 << 10
    /// Bytes of unfinished fragmented requests and of parked publishes, each, for one connection.
    public var reassembly = 4 << 20
    public var parked = 4 << 20
    /// What each connection may have of the former, and the longest frame of which a part is kept, while memory is used
    /// up; and once an eighth more is.
    static let shortReassembly = 16 << 10
    static let leastReassembly = 2 << 10
    /// Bytes of one connection's publishes and calls on their way to another shard (`MessageBatch.weight`,
    /// `ControlRequest.weight`), above which it is read no more.
    public var forwarded = 1 << 20
    /// Publishes of one connection that wait for room.
    public var parkedCount = 4096
    /// Time for TLS's handshake and SETUP to arrive, for a fragmented request to be complete, and for a parked publish
    /// to find room.
    public var setupTime: UInt64 = 5 * second
    public var reassemblyTime: UInt64 = 30 * second
    public var parkTime: UInt64 = 10 * second
    /// Time after which a shard reads nothing more before it has written what there is.
    public static let turnTime: UInt64 = second / 250
    /// Time that a shard spends on TLS handshakes before all else has its turn.
    public static let handshakeQuantum: UInt64 = second / 500
    /// As much on libmicrohttpd, unless one run of one instance takes longer.
    public static let http1Quantum: UInt64 = second / 500
    /// A thread that comes to look at its limits of time so much too late did not run, and what it did not hear
    /// meanwhile counts against nobody.
    public static let standstill: UInt64 = 1 * second
    /// How long a connection that can be resumed is kept without a socket; 0: none can be.
    public var resumeTime: UInt64 = 30 * second
    /// Bytes that such a connection may be sent beyond what its peer has acknowledged. Answers may take `controlOutput`
    /// more, and the last message may go beyond it.
    public var resumeBuffer = 1 << 20
    /// Such connections, in all and of one user, and the bytes of the token that each is resumed by.
    public var sessions = 10_000
    public var sessionsPerUser = 10_000
    public static let resumeToken = 16...128
    /// How long one that was asked for an acknowledgement, or lost its socket, is waited for while memory is short.
    public static let acknowledgementTime = 2 * second
    /// SETUP's lifetime is clamped to this range.
    public var lifetime: ClosedRange<UInt64> = (1 * second)...(600 * second)
    /// An HTTP/2 connection that nothing is heard from is asked for a keepalive after half of this, and closed after
    /// all of it. One of HTTP/1.1 may be so long without a request, or with an answer of which nothing is taken.
    public var httpSilence: UInt64 = 60 * second
    /// After so long without a message an event stream is sent a keepalive.
    public var heartbeat: UInt64 = 15 * second
    /// Who may ask over HTTP, and how.
    public var http = HTTPPolicies()
    /// How long a connection may leave more than `controlOutput` unread, and how long it may take to read a closing
    /// error.
    public var unreadTime: UInt64 = 10 * second
    public var closeTime: UInt64 = 2 * second
    /// How long a draining broker waits for a subscriber, for whom messages wait, to ask for the next ones.
    public var askTime: UInt64 = 1 * second

    // Users. Those without credentials are one user together.
    public var connectionsPerUser = 100_000
    public var subscriptionsPerUser = 1_000_000
    /// Topics that a user was the first to use.
    public var topicsPerUser = 100_000
    /// Messages, and bytes of payload and metadata, that a user may publish in a second; 0 is any number.
    public var publishRate = 0
    public var publishBytes = 0
    /// For how long a user who does not publish saves that up.
    public var publishBurst: UInt64 = second
    /// Those who wait until they may publish more are looked at so often at most.
    public static let paceInterval: UInt64 = second / 100

    // Flow
    public var subscriptions = 1_000_000
    /// Messages granted to a channel at a time when nothing narrows it, and bytes that they are expected to be charged.
    /// Enough to keep a publisher busy while the next grant is on its way to it.
    public var grant = 8192
    public var grantBytes = 1 << 20
    public static let grantReservation: UInt64 = 1 * second
    /// How long a `block` subscription may stay full without progress.
    public var blockLimit: UInt64 = 30 * second

    // The process
    /// Bytes of all logs and queues together.
    public var memory = 1 << 30
    /// Bytes read from one connection, and written to one, before others have their turn.
    public static let readQuantum = 128 << 10
    /// The same where memory is short, and from one that leaves answers unread meanwhile.
    static let shortRead = 16 << 10
    static let leastRead = 2 << 10

    /// Bytes that the driver of HTTP/1.1 has for each connection: for the head of a request, and then for a piece of
    /// the answer.
    public static let http1Memory = 32 << 10
    /// The same while no request has come.
    static let http1Untouched = 4 << 10
    /// Bytes that a client of HTTP/1.1 may send behind its request for a stream. They are thrown away; one more ends
    /// the connection.
    public static let http1Surplus = 64 << 10
    /// Connections of one shard that speak HTTP/1.1 over TLS and have no stream, each of which takes three files; and
    /// the bytes that wait for that driver, and for TLS, in each of them.
    public static let securedHTTP1 = 4096
    public static let securedHTTP1Buffer: Int32 = 32 << 10
    public static let second: UInt64 = 1_000_000_000

    public init() {}

    /// Whether the topic called `name` is kept by a store.
    func isStored(_ name: String) -> Bool { stored.contains { $0.matches(name) } }

    /// What the topic called `name` retains.
    func retention(of name: String) -> Retention {
        let rule = topicRules.first { $0.match.matches(name) }
        return Retention(
            messages: rule?.retain ?? retain, bytes: rule?.retainBytes ?? retainBytes, age: rule?.retainAge ?? retainAge
        )
    }
}
