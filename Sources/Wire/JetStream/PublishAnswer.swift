// PublishAnswer: JetStream's acknowledgement of a message.

import JSONParsing
import NATS

/// The answer to a message that was published to a subject of a stream: it is stored.
public struct PublishAnswer: Equatable, Sendable {
    public var stream: String
    /// Where the message is in the stream, 1 or more.
    public var sequence: UInt64
    /// Whether the stream had a message with the same id already; `sequence` is that message's.
    public var isDuplicate: Bool

    /// - Throws: why the message is not stored, or that the answer is malformed.
    public init(_ message: NATSMessage) throws(JetStreamError) {
        let answer = try JetStreamAnswer(message).root
        stream = try answer.text("stream")
        sequence = try answer.count("seq")
        guard sequence > 0 else { throw .missing("seq") }
        isDuplicate = answer["duplicate"]?.isTrue ?? false
    }
}
