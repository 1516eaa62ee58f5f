// JetStreamMessage: a message of a stream, in place, as the stream republishes it or a direct get returns it. The
// server adds headers that say where the message is in its stream.

import Bytes
import NATS

/// A message of a stream. The pointers are valid as long as those of the message that it was made from.
public struct JetStreamMessage {
    /// The name of the stream; nil for a message that its leader was asked for.
    public let stream: UnsafeRawBufferPointer?
    public let sequence: UInt64
    /// When the stream stored it, in ns since 1970.
    public let time: Int64
    /// The publisher's headers, with those that the server added; nil if there are none that can be read.
    public let headers: NATSHeaders?
    public let payload: UnsafeRawBufferPointer

    init(
        stream: UnsafeRawBufferPointer?, sequence: UInt64, time: Int64, headers: NATSHeaders?,
        payload: UnsafeRawBufferPointer
    ) {
        self.stream = stream
        self.sequence = sequence
        self.time = time
        self.headers = headers
        self.payload = payload
    }

    /// Nil if the message does not come from a stream. A publisher cannot pretend that it does: servers replace these
    /// headers, and the last value of each counts.
    public init?(_ message: NATSMessage) {
        guard let block = message.headers, let headers = try? NATSHeaders(block) else { return nil }
        self.init(headers, message.payload)
    }

    fileprivate init?(_ headers: NATSHeaders, _ payload: UnsafeRawBufferPointer) {
        var stream: UnsafeRawBufferPointer?
        var sequence: UInt64?
        var time: Int64?
        // The server's headers follow the publisher's.
        headers.forEach { name, value in
            if name.isText("Nats-Stream") { stream = value }
            if name.isText("Nats-Sequence") { sequence = value.decimal }
            if name.isText("Nats-Time-Stamp") { time = JetStreamTime.parse(value) }
        }
        guard let stream, let sequence, sequence > 0, let time else { return nil }
        self.init(stream: stream, sequence: sequence, time: time, headers: headers, payload: payload)
    }
}

/// A part of the answer to `directGet`.
public enum DirectGetItem {
    case message(JetStreamMessage)
    /// The batch is complete.
    case end
    /// The replica has no message at or after the one asked for.
    case notFound
    /// There is no such stream, no replica can answer, or the answer cannot be read.
    case failed

    public init(_ answer: NATSMessage) {
        guard let block = answer.headers, let headers = try? NATSHeaders(block) else {
            self = .failed
            return
        }
        switch headers.status {
        case nil: self = JetStreamMessage(headers, answer.payload).map { .message($0) } ?? .failed
        case 204: self = .end
        case 404: self = .notFound
        default: self = .failed
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func isText(_ text: StaticString) -> Bool {
        elementsEqual(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}
