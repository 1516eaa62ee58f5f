// JetStreamMessage: a message of a stream, in place, as the server republishes it and as it answers `directGet`.

import Bytes
import NATS

/// A message of a stream. The pointers are valid as long as those of the `NATSMessage`.
public struct JetStreamMessage {
    /// The stream's name. Empty in a `StoredMessage`.
    public let stream: UnsafeRawBufferPointer
    /// Where the message was published to.
    public let subject: UnsafeRawBufferPointer
    /// 1 or more.
    public let sequence: UInt64
    /// When the server stored the message, in ns since 1970.
    public let time: Int64
    /// The publisher's headers. Nil if it has none, or they are malformed.
    public let headers: NATSHeaders?
    public let payload: UnsafeRawBufferPointer

    init(
        stream: UnsafeRawBufferPointer, subject: UnsafeRawBufferPointer, sequence: UInt64, time: Int64,
        headers: NATSHeaders?, payload: UnsafeRawBufferPointer
    ) {
        self.stream = stream
        self.subject = subject
        self.sequence = sequence
        self.time = time
        self.headers = headers
        self.payload = payload
    }

    /// Does not allocate.
    /// - Throws: `malformed` if the message is not a stream's.
    public init(_ message: NATSMessage) throws(JetStreamError) {
        guard let block = message.headers else { throw .malformed("It has no headers.") }
        guard let added = ServerHeaders(block) else { throw .missing("Nats-Stream, Nats-Sequence or Nats-Time-Stamp") }
        self.init(
            stream: added.stream, subject: added.subject, sequence: added.sequence, time: added.time,
            headers: try? NATSHeaders(unfinished: added.published), payload: message.payload)
    }
}
