// StoredMessage: a message of a stream as JSON, which the stream's leader answers.

import Bytes
import JSONParsing
import NATS

/// The answer to `JetStreamRequest.message`.
public struct StoredMessage: Sendable {
    public let subject: String
    /// 1 or more.
    public let sequence: UInt64
    /// When the server stored the message, in ns since 1970.
    public let time: Int64
    private let headers: [UInt8]
    private let payload: [UInt8]

    /// - Throws: the error that the server answered, such as `messageNotFound`, or that the answer is malformed.
    public init(_ message: NATSMessage) throws(JetStreamError) {
        let stored = try JetStreamAnswer(message).member("message")
        subject = try stored.text("subject")
        sequence = try stored.count("seq")
        guard sequence > 0 else { throw .missing("seq") }
        var text = try stored.text("time")
        guard let time = text.withUTF8({ ServerTime.parse(UnsafeRawBufferPointer($0)) }) else { throw .missing("time") }
        self.time = time
        headers = try StoredMessage.bytes(stored, "hdrs")
        payload = try StoredMessage.bytes(stored, "data")
    }

    /// The server leaves out what is empty.
    private static func bytes(_ stored: JSONValue, _ name: String) throws(JetStreamError) -> [UInt8] {
        guard let value = stored[name] else { return [] }
        guard let bytes = value.string.flatMap({ Base64.decode($0.utf8, .standard) }) else { throw .missing(name) }
        return bytes
    }

    /// Calls `body` with the message, whose pointers are valid during the call. Its `stream` is empty, because the
    /// answer does not name it; its headers are nil if it has none or the publisher wrote them wrongly.
    public func withMessage<R>(_ body: (JetStreamMessage) throws -> R) rethrows -> R {
        try headers.withUnsafeBytes { block in
            try payload.withUnsafeBytes { payload in
                try Array(subject.utf8).withUnsafeBytes { subject in
                    try body(
                        JetStreamMessage(
                            stream: .nothing, subject: subject, sequence: sequence, time: time,
                            headers: try? NATSHeaders(block), payload: payload))
                }
            }
        }
    }
}
