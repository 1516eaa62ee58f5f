// ClientEvent: what a connection tells its user, one at a time.


/// Names a stream of one connection. Ids are odd and grow; a stale one is harmless.
public struct StreamID: Hashable, Sendable {
    public let value: UInt32

    public init(_ value: UInt32) { self.value = value }
}

/// Something that arrived. The bytes are the connection's: valid until the next call that changes it.
public enum ClientEvent {
    /// A message, which used one credit.
    case message(StreamID, Message)
    /// The other side completed its half of the stream, after all its messages. `metadata` is what came with the end.
    case completed(StreamID, metadata: UnsafeRawBufferPointer?)
    /// The stream failed; nothing more comes on it.
    case failed(StreamID, ClientError)
    /// The broker granted credit on a channel: `n` more items may be sent (saturating; see `credit(of:)`).
    case granted(StreamID, n: UInt32)
    /// The broker wants no more items on a channel; its own half may go on.
    case declined(StreamID)
    /// A KEEPALIVE that this side sent was answered with its data.
    case pong(UnsafeRawBufferPointer)
    /// ERROR[CONNECTION_CLOSE]: no new streams; those that are open may end.
    case closing(String)

    public struct Message {
        /// Nil when the frame had none, which differs from empty.
        public let metadata: UnsafeRawBufferPointer?
        public let data: UnsafeRawBufferPointer
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
    /// Outgoing payloads above this are fragmented.
    public var fragment = 64 << 10
    /// How often this side sends a KEEPALIVE, in nanoseconds.
    public var keepaliveInterval: UInt64 = 10_000_000_000
    /// How long this side waits for a sign of life, in nanoseconds; it is also what SETUP tells the broker.
    public var lifetime: UInt64 = 60_000_000_000
    /// Unsent output above which answers to KEEPALIVEs are no longer queued: the peer does not read.
    public var controlOutput = 64 << 10

    public init() {}
}
