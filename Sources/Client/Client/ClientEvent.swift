// ClientEvent: what a connection reports to its user, one event at a time.

import ForebayWire

/// Identifies a stream, or a call, of one connection. Ids are odd and ascend; a stale id is harmless.
public struct StreamID: Hashable, Sendable {
    public let value: UInt32

    public init(_ value: UInt32) { self.value = value }
}

/// An event. Its bytes belong to the connection and are valid until the next call that changes it.
public enum ClientEvent {
    /// A message, which used one credit.
    case message(StreamID, Message)
    /// A subscription with `opening` has begun at this position. This event precedes the first message and used no
    /// credit.
    case opened(StreamID, OpeningPosition)
    /// One topic of a subscription's pattern has ended, after all its messages. Only over gRPC.
    case topicEnded(StreamID, EndNotice)
    /// The broker has accepted published messages: one message, or those of a channel so far.
    case acknowledged(StreamID, Acknowledgement)
    /// The broker's half of the stream is complete, after all its messages. `dropped`: messages that a subscription
    /// lost after the last one. `info`: the topic's last message, if the broker reports it: after a loss, and if no
    /// message reported a gap at the start. Over gRPC, `info` has only the epoch, and is always present.
    case completed(StreamID, dropped: UInt64, info: MessageInfo? = nil)
    /// The stream failed; it has no further events.
    case failed(StreamID, ClientError)
    /// The broker granted credit on a channel: `n` more items may be sent (saturating; see `credit(of:)`).
    case granted(StreamID, n: UInt32)
    /// The broker accepts no more items on a channel; the broker's half may continue.
    case declined(StreamID)
    /// The broker answered a `ping` with its data.
    case pong(UnsafeRawBufferPointer)
    /// The broker is about to end the connection: no new streams are possible; open ones may finish.
    case closing(String)

    public struct Message {
        /// The publisher's metadata as entries of RSocket's composite metadata, possibly after the broker's own
        /// entries, MessageInfo. Nil if there is no metadata, which differs from empty.
        public let metadata: UnsafeRawBufferPointer?
        public let data: UnsafeRawBufferPointer
        private let givenInfo: MessageInfo?
        private let isOfPattern: Bool

        /// - Parameter ofPattern: whether the subscription is to a pattern.
        init(
            metadata: UnsafeRawBufferPointer?, data: UnsafeRawBufferPointer, info: MessageInfo? = nil,
            ofPattern: Bool = false
        ) {
            self.metadata = metadata
            self.data = data
            givenInfo = info
            isOfPattern = ofPattern
        }

        /// The message's position in its topic; nil if the position was not requested from the broker.
        public var info: MessageInfo? {
            givenInfo ?? metadata.flatMap { MessageInfo(metadata: $0, ofPattern: isOfPattern) }
        }
    }
}

/// What the broker has accepted of the messages published on a stream.
public struct Acknowledgement: Equatable, Sendable {
    /// The sequence of the last accepted message.
    public var sequence: UInt64
    /// How many of the stream's messages were accepted; nil if the broker does not report the number.
    public var accepted: UInt64?
    /// The topic's epoch; nil if the broker does not report it.
    public var epoch: UInt64?
    /// Whether any of the messages that are acknowledged now had been published before.
    public var isDuplicate: Bool

    public init(sequence: UInt64, accepted: UInt64? = nil, epoch: UInt64? = nil, isDuplicate: Bool = false) {
        self.sequence = sequence
        self.accepted = accepted
        self.epoch = epoch
        self.isDuplicate = isDuplicate
    }
}

/// The limits of one client connection.
public struct ClientLimits: Sendable {
    /// Bytes (metadata and data) of one message, reassembled or not.
    public var message = 32 << 20
    /// Bytes of all unfinished fragmented messages together.
    public var reassembly = 64 << 20
    /// Number of open streams.
    public var streams = 1024
    /// With RSocket, outgoing payloads larger than this are fragmented.
    public var fragment = 64 << 10
    /// How often this side sends a KEEPALIVE, or over HTTP/2 a PING if it has received nothing, in nanoseconds.
    public var keepaliveInterval: UInt64 = 10_000_000_000
    /// How long this side waits for a keepalive, in nanoseconds; RSocket's SETUP announces it to the broker.
    public var lifetime: UInt64 = 60_000_000_000
    /// Above this much unsent output, answers to KEEPALIVEs are no longer queued: the peer is not reading.
    public var controlOutput = 64 << 10

    public init() {}

    /// Bytes of one received RSocket frame. Brokers send fragments of 64 KiB, so a smaller limit on messages must not
    /// end the connection: such a frame belongs to a message that fails only its own stream.
    var frame: Int { max(message, 64 << 10) + 64 }
}
