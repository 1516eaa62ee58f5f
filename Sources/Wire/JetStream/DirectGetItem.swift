// DirectGetItem: one answer to a request for many messages.

import Bytes
import NATS

/// Each answer to `JetStreamRequest.directGet`. All but `message` are the last.
public enum DirectGetItem {
    case message(JetStreamMessage)
    /// These were all messages that the request asked for.
    case end
    /// The server that answered has no such message; others may.
    case notFound
    /// The server could not answer; `JetStreamError.isTemporary` says whether it makes sense to ask again.
    case failed(JetStreamError)

    /// - Throws: `malformed` if the message is none of these.
    public init(_ message: NATSMessage) throws(JetStreamError) {
        // Publishers can send a status or malformed headers, too, but the server's own answers belong to no stream.
        if let message = try? JetStreamMessage(message) {
            self = .message(message)
            return
        }
        guard let block = message.headers else { throw .malformed("It has no headers.") }
        let headers: NATSHeaders
        do { headers = try NATSHeaders(block) } catch { throw .malformed(error.sentence) }
        switch headers.status {
        case nil: throw .malformed("It has neither a status nor a message of a stream.")
        case 204: self = .end
        case 404: self = .notFound
        case let status?: self = .failed(JetStreamError(status: status, headers.statusText.text))
        }
    }
}
