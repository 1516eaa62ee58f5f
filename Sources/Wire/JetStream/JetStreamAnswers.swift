// JetStreamAnswers: the answers of NATS JetStream's API, and of a stream to a publish. Each initializer takes the
// message that arrived on the reply subject.

import Bytes
import JSONParsing
import NATS

/// The answer to `findStream`.
public struct StreamNames: Equatable, Sendable {
    public let names: [String]

    /// - Throws: the server's error, or that the answer cannot be read.
    public init(_ answer: NATSMessage) throws(JetStreamError) {
        let root = try JetStreamError.check(answer)
        // Null stands for none.
        names = root["streams"]?.strings ?? []
    }
}

/// The answer to `create` and `info`.
public struct StreamInfo: Equatable, Sendable {
    public let name: String
    /// The sequence of the oldest message; one after `lastSequence` if the stream is empty.
    public let firstSequence: UInt64
    /// The sequence of the newest message that the stream ever had; 0 if there was none.
    public let lastSequence: UInt64
    public let messages: Int

    /// - Throws: the server's error, or that the answer cannot be read.
    public init(_ answer: NATSMessage) throws(JetStreamError) {
        let root = try JetStreamError.check(answer)
        guard let name = root["config"]?["name"]?.string, let state = root["state"],
            let messages = state["messages"]?.integer, messages >= 0,
            let first = state["first_seq"]?.integer.flatMap({ UInt64(exactly: $0) }),
            let last = state["last_seq"]?.integer.flatMap({ UInt64(exactly: $0) }), last < UInt64(Int.max)
        else { throw .unreadable("a stream's state") }
        self.name = name
        self.messages = messages
        lastSequence = last
        firstSequence = messages == 0 || first == 0 || first > last ? last + 1 : first
    }
}

/// The answer to a publish.
public struct PublishAnswer: Equatable, Sendable {
    public let stream: String
    public let sequence: UInt64
    /// Whether the stream had a message with this id already, which is the one at `sequence`.
    public let isDuplicate: Bool

    /// - Throws: why the stream did not take the message, or that the answer cannot be read.
    public init(_ answer: NATSMessage) throws(JetStreamError) {
        let root = try JetStreamError.check(answer)
        guard let stream = root["stream"]?.string,
            let sequence = root["seq"]?.integer.flatMap({ UInt64(exactly: $0) }), sequence > 0
        else { throw .unreadable("the acknowledgement of a message") }
        self.stream = stream
        self.sequence = sequence
        isDuplicate = root["duplicate"]?.isTrue == true
    }
}

/// The answer to `message`.
public struct StoredMessage: Equatable, Sendable {
    public let sequence: UInt64
    /// When the stream stored it, in ns since 1970.
    public let time: Int64
    /// The header block, as `NATSHeaders` reads it; empty if there is none.
    public let headers: [UInt8]
    public let payload: [UInt8]

    /// - Throws: the server's error, or that the answer cannot be read.
    public init(_ answer: NATSMessage) throws(JetStreamError) {
        let root = try JetStreamError.check(answer)
        guard let message = root["message"],
            let sequence = message["seq"]?.integer.flatMap({ UInt64(exactly: $0) }), sequence > 0,
            let time = message["time"]?.string.flatMap({ JetStreamTime.parse($0) }),
            let headers = StoredMessage.decoded(message["hdrs"]), let payload = StoredMessage.decoded(message["data"])
        else { throw .unreadable("a stored message") }
        self.sequence = sequence
        self.time = time
        self.headers = headers
        self.payload = payload
    }

    /// Base64; nothing if the member is missing, nil if it is malformed.
    private static func decoded(_ value: JSONValue?) -> [UInt8]? {
        guard let value else { return [] }
        return value.string.flatMap { Base64.decode(Array($0.utf8), .standard) }
    }

    /// Calls `body` with the message in the form of one that was read directly.
    public func withMessage(_ body: (JetStreamMessage) -> Void) {
        headers.withUnsafeBytes { block in
            payload.withUnsafeBytes { payload in
                body(
                    JetStreamMessage(
                        stream: nil, sequence: sequence, time: time,
                        headers: block.isEmpty ? nil : try? NATSHeaders(block), payload: payload))
            }
        }
    }
}
