// Limits: every bound of the broker in one place. Each queue, table, buffer and retry names its limit here.

import ForebayWire

/// The limits of one broker. Sizes are in bytes and times in nanoseconds unless the name says otherwise.
public struct Limits: Equatable, Sendable {
    // Topics
    /// Messages that a topic retains for replay.
    public var retain = 1024
    /// Bytes (payload, metadata and `messageOverhead` per message) that a topic's log may hold.
    public var retainBytes = 16 << 20
    /// Age after which a retained message is removed; 0 means never.
    public var retainAge: UInt64 = 0
    /// How long a topic without publishers and subscribers is kept.
    public var topicIdle: UInt64 = 300 * second
    public var topics = 100_000
    /// Exceptions to the limits above for some topics. The first rule that matches a topic's name applies.
    public var topicRules: [TopicRule] = []
    public static let mostTopicRules = 256
    /// Topics that a store keeps: those whose messages are visible and acknowledged only once they are on disk, and
    /// those whose messages are written later.
    public var durable: [TopicPattern] = []
    public var relaxed: [TopicPattern] = []
    /// New topics that other nodes use, too, over NATS JetStream.
    public var shared: [TopicPattern] = []
    /// Messages of a stored topic that are not written yet, above which its publishers wait.
    public var uncommitted = 65_536
    /// Bytes of all such messages. A topic may have a quarter of them.
    public var uncommittedBytes = 64 << 20
    /// Bytes of memory for the newest messages of a stored topic.
    public var resident = 16 << 20

    /// Publishers whose numbers a topic remembers, those of all topics together, and how long an unused one is
    /// remembered.
    public var publishersPerTopic = 1024
    public var publishers = 262_144
    public var publisherTime: UInt64 = 3600 * second

    // Messages
    public var payload = 1 << 20
    /// Metadata of one message or request.
    public var metadata = 64 << 10
    /// The headers of an HTTP request, plus 32 bytes for each.
    public var headers = 16 << 10
    /// What a message is charged in addition to its bytes.
    public static let messageOverhead = 64
    /// Larger outgoing payloads are fragmented.
    public static let fragment = 64 << 10

    // Connections
    public var connections = 100_000
    public var connectionsPerAddress = 100_000
    public var streamsPerConnection = 10_000
    /// Concurrent lists (`$SYS.topics` …) of one connection. Each may hold a page of rows.
    public var listsPerConnection = 16
    /// Bytes handed over to a connection and not yet taken by its socket; above this, messages wait.
    public var output = 256 << 10
    /// Unread control output above which the broker stops reading a connection.
    public var controlOutput = 64 << 10
    /// Bytes of messages that the streams of one HTTP/2 connection may have started beyond the peer's windows, because
    /// a message is never started in part. Above this, a message that does not fit its window waits until others have
    /// left. What fits the windows counts towards `output`.
    public var beyondWindows = 4 << 20
    /// `controlOutput` while memory is short, and while usage exceeds `memory` by an eighth.
    static let shortControl = 4 << 10
    static let leastControl = 512
    /// Unwritten answers and control frames over HTTP/2 above which the broker stops reading the connection while its
    /// socket takes nothing or memory is short. The smaller values apply while clients have started all they may.
    static let unwrittenAnswers = 8
    static let shortUnwrittenAnswers = 1
    static let unwrittenFrames = 64
    static let shortUnwrittenFrames = 8
    public var keepaliveData = 1 << 10
    /// Unread control output above which acknowledgements wait. Each channel then keeps only its latest one.
    public var acknowledgementBacklog = 4 << 10
    /// Bytes of incomplete fragmented requests, and bytes of parked publishes, for one connection.
    public var reassembly = 4 << 20
    public var parked = 4 << 20
    /// A connection's share of `reassembly`, and the longest frame that is buffered in part, while memory is used up,
    /// and while usage exceeds `memory` by an eighth.
    static let shortReassembly = 16 << 10
    static let leastReassembly = 2 << 10
    /// Bytes of one connection's publishes and calls on their way to another shard (`MessageBatch.weight`,
    /// `ControlRequest.weight`) above which the broker stops reading it.
    public var forwarded = 1 << 20
    /// Publishes of one connection that may wait for room.
    public var parkedCount = 4096
    /// Time limits for the TLS handshake and SETUP, for a fragmented request to be complete, and for a parked publish
    /// to find room.
    public var setupTime: UInt64 = 5 * second
    public var reassemblyTime: UInt64 = 30 * second
    public var parkTime: UInt64 = 10 * second
    /// Time after which a shard stops reading and writes its output first.
    public static let turnTime: UInt64 = second / 250
    /// Messages from one shard to another that are handled before others have their turn.
    public static let messagesAtOnce = 16
    /// Time that a shard spends on TLS handshakes before other work runs.
    public static let handshakeQuantum: UInt64 = second / 500
    /// Time that a shard spends on libmicrohttpd before other work runs, unless a single run of one instance takes
    /// longer.
    public static let http1Quantum: UInt64 = second / 500
    /// A thread that checks its time limits this much too late was not running. Clients are not penalized for silence
    /// in the meantime.
    public static let standstill: UInt64 = 1 * second
    /// How long a resumable connection is kept without a socket; 0 disables resumption.
    public var resumeTime: UInt64 = 30 * second
    /// Unacknowledged bytes that a resumable connection may be sent. Answers may take `controlOutput` more, and the
    /// last message may exceed the limit.
    public var resumeBuffer = 1 << 20
    /// Resumable connections, in total and per user, and the size of their resume tokens in bytes.
    public var sessions = 10_000
    public var sessionsPerUser = 10_000
    public static let resumeToken = 16...128
    /// While memory is short, how long to wait for a session that was asked for an acknowledgement or lost its socket.
    public static let acknowledgementTime = 2 * second
    /// SETUP's lifetime is clamped to this range.
    public var lifetime: ClosedRange<UInt64> = (1 * second)...(600 * second)
    /// A silent HTTP/2 connection is sent a keepalive after half of this and closed after all of it. An HTTP/1.1
    /// connection may be this long without a request, or with an answer that is not read.
    public var httpSilence: UInt64 = 60 * second
    /// An event stream is sent a keepalive after this long without a message.
    public var heartbeat: UInt64 = 15 * second
    /// Which hosts and origins may use HTTP, and how.
    public var http = HTTPPolicies()
    /// How long a connection may leave more than `controlOutput` unread, and how long it may take to read a closing
    /// error.
    public var unreadTime: UInt64 = 10 * second
    public var closeTime: UInt64 = 2 * second
    /// How long a draining broker waits until a subscriber with waiting messages requests more.
    public var askTime: UInt64 = 1 * second

    // Users. All clients without credentials are one user.
    public var connectionsPerUser = 100_000
    public var subscriptionsPerUser = 1_000_000
    /// Topics that a user was the first to use.
    public var topicsPerUser = 100_000
    /// Messages, and bytes of payload and metadata, that a user may publish per second; 0 means unlimited.
    public var publishRate = 0
    public var publishBytes = 0
    /// The time for which a user can accumulate unused rate.
    public var publishBurst: UInt64 = second
    /// Minimum interval between checks of publishers that wait for their rate.
    public static let paceInterval: UInt64 = second / 100

    // Flow
    public var subscriptions = 1_000_000
    /// Different patterns that clients may be subscribed to, on each thread; and topics that may match a pattern.
    public var patterns = 1024
    public var matches = 10_000
    /// Messages granted to a channel at a time if nothing else limits it, and the bytes that they are expected to be
    /// charged. Enough to keep a publisher busy until the next grant arrives.
    public var grant = 8192
    public var grantBytes = 1 << 20
    public static let grantReservation: UInt64 = 1 * second
    /// How long a `block` subscription may stay full without progress.
    public var blockLimit: UInt64 = 30 * second

    // The process
    /// Bytes of all logs and queues together.
    public var memory = 1 << 30
    /// Bytes read from one connection, or written to one, before others have their turn.
    public static let readQuantum = 128 << 10
    /// `readQuantum` while memory is short, and for a connection that also leaves answers unread.
    static let shortRead = 16 << 10
    static let leastRead = 2 << 10

    /// Bytes of the HTTP/1.1 driver for each connection: for the head of a request, then for a piece of the answer.
    public static let http1Memory = 32 << 10
    /// `http1Memory` until a request has arrived.
    static let http1Untouched = 4 << 10
    /// Bytes that an HTTP/1.1 client may send after its request for a stream. They are discarded; one more closes the
    /// connection.
    public static let http1Surplus = 64 << 10
    /// The number of HTTP/1.1 connections over TLS without a stream on one shard, each of which takes three file
    /// descriptors; and the size of the buffers that the HTTP/1.1 driver and TLS need for each of them, in bytes.
    public static let securedHTTP1 = 4096
    public static let securedHTTP1Buffer: Int32 = 32 << 10
    public static let second: UInt64 = 1_000_000_000

    public init() {}

    /// How a new topic called `name` keeps its messages.
    func storage(of name: String) -> TopicStorage {
        if durable.isEmpty && relaxed.isEmpty || TopicName.isSystem(name) { return .memory }
        if durable.contains(where: { $0.matches(name) }) { return .durable }
        return relaxed.contains { $0.matches(name) } ? .relaxed : .memory
    }

    /// Whether a new topic called `name` is shared with other nodes.
    func isShared(_ name: String) -> Bool {
        !shared.isEmpty && !TopicName.isSystem(name) && shared.contains { $0.matches(name) }
    }

    /// Whether a topic that a pattern matches can be shared with other nodes.
    func mayShare(_ pattern: TopicPattern) -> Bool { shared.contains { $0.overlaps(pattern) } }

    /// The retention limits of the topic called `name`.
    func retention(of name: String) -> Retention {
        let rule = topicRules.first { $0.match.matches(name) }
        return Retention(
            messages: rule?.retain ?? retain, bytes: rule?.retainBytes ?? retainBytes, age: rule?.retainAge ?? retainAge
        )
    }
}
