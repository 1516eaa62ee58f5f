// StoredMessage: a message in a stream; and what the model reports about streams for checks.

/// A message in a stream.
public struct StoredMessage: Equatable, Sendable {
    public var sequence: UInt64
    public var subject: String
    /// The header block as it was published; nil for none.
    public var headers: [UInt8]?
    public var payload: [UInt8]
    /// When the leader stored it, by its clock: nanoseconds since 1970.
    public var time: Int64

    /// The value of `Nats-Msg-Id`.
    public var id: String? { HeaderBlock.value("Nats-Msg-Id", in: headers) }
}

/// A stream as the leader has it.
public struct StreamTruth: Equatable, Sendable {
    public var configuration: StreamConfiguration
    /// In order; there may be gaps.
    public var messages: [StoredMessage]
    public var lastSequence: UInt64
    /// Messages that are published, but not committed yet.
    public var uncommitted: Int

    public subscript(sequence: UInt64) -> StoredMessage? { messages.first { $0.sequence == sequence } }
}

/// A publish that the server acknowledged. The acknowledgement itself may not have arrived.
public struct Acknowledged: Equatable, Sendable {
    public var stream: String
    public var sequence: UInt64
    public var subject: String
    /// The value of `Nats-Msg-Id`.
    public var id: String?
    public var isDuplicate: Bool
}
