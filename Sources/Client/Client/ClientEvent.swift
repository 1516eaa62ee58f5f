// ClientEvent: what a connection tells its user, one at a time.

/// Names a stream, or a call, of one connection. Ids are odd and grow; a stale one is harmless.
public struct StreamID: Hashable, Sendable {
    public let value: UInt32

    public init(_ value: UInt32) { self.value = value }
}

/// Something that arrived. The bytes are the connection's: valid until the next call that changes it.
public enum ClientEvent {
    /// A message, which used one credit.
    case message(StreamID, Message)
    /// The broker has accepted what was published: one message, or those of a channel so far.
    case acknowledged(StreamID, Acknowledgement)
    /// The broker's half of the stream is complete, after all its messages. `dropped`: messages that a subscription
    /// lost behind the last one. `info`: of the topic's last message, where the broker tells of that: behind a loss,
    /// and where no message came that told of a gap at the start. Over gRPC it is the epoch alone, and comes always.
    case completed(StreamID, dropped: UInt64, info: MessageInfo? = nil)
    /// The stream failed; nothing more comes on it.
    case failed(StreamID, ClientError)
    /// The broker granted credit on a channel: `n` more items may be sent (saturating; see `credit(of:)`).
    case granted(StreamID, n: UInt32)
    /// The broker wants no more items on a channel; its own half may go on.
    case declined(StreamID)
    /// The broker answered a `ping` with its data.
    case pong(UnsafeRawBufferPointer)
    /// The broker is about to end the connection: no new streams; those that are open may end.
    case closing(String)

    public struct Message {
        /// What the publisher gave the message beside its payload, as entries of RSocket's composite metadata; the
        /// broker's own entry, MessageInfo, may be among them. Nil when there is none, which differs from empty.
        public let metadata: UnsafeRawBufferPointer?
        public let data: UnsafeRawBufferPointer
        private let told: MessageInfo?

        init(metadata: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer, info: MessageInfo? = nil) {
            self.metadata = metadata
            self.data = data
            told = info
        }

        /// Where the message stands in its topic; nil when the broker was not asked to tell.
        public var info: MessageInfo? { told ?? metadata.flatMap { MessageInfo(metadata: $0) } }
    }
}

/// What the broker has accepted of what was published on a stream.
public struct Acknowledgement: Equatable, Sendable {
    /// Of the last message accepted.
    public var sequence: UInt64
    /// How many of the stream's messages were accepted; nil where the broker does not tell.
    public var accepted: UInt64?
    /// The life of the topic; nil where the broker does not tell.
    public var epoch: UInt64?

    public init(sequence: UInt64, accepted: UInt64? = nil, epoch: UInt64? = nil) {
        self.sequence = sequence
        self.accepted = accepted
        self.epoch = epoch
    }
}

/// The bounds of one client connection.
public struct ClientLimits: Sendable {
    /// Bytes (metadata and data) of one message, put together from fragments or not.
    public var message = 32 << 20
    /// Bytes of all unfinished fragmented messages together.
    public var reassembly = 64 << 20
    /// Streams open at a time.
    public var streams = 1024
    /// Outgoing payloads above this are fragmented, by RSocket.
    public var fragment = 64 << 10
    /// How often this side sends a KEEPALIVE, or over HTTP/2 a PING when it heard nothing, in nanoseconds.
    public var keepaliveInterval: UInt64 = 10_000_000_000
    /// How long this side waits for a keepalive, in nanoseconds; it is also what RSocket's SETUP tells the broker.
    public var lifetime: UInt64 = 60_000_000_000
    /// Unsent output above which answers to KEEPALIVEs are no longer queued: the peer does not read.
    public var controlOutput = 64 << 10

    public init() {}

    /// Bytes of one incoming RSocket frame. Brokers send fragments of 64 KiB, so a smaller limit on messages must not
    /// end the connection: such a frame belongs to a message that fails its own stream.
    var frame: Int { max(message, 64 << 10) + 64 }
}
