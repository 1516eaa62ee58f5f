// ControlMessage: a message of a topic's stream that is for the nodes, and not for subscribers.
//
//     Forebay-Control: completed, failed or deleted; the payload is the reason of a failure
//     Forebay-Control: probe, which only shows what sequence it gets
//     Nats-Msg-Id: NODE.TICKET
//     Nats-Expected-Stream: NAME
//
// After one of the first three, the topic takes no more messages. Every node that reads it records the end in the
// stream's metadata and seals the stream, or deletes the stream.

import Bytes
import Core
import JetStream
import NATS
import Replay

/// The end of a topic, as its stream has it.
struct StreamEnd: Equatable {
    let end: SharedEnd
    /// The sequence of the control message: the topic has the messages before it.
    let sequence: SequenceNumber
    /// The control message's id, which says who requested it.
    let id: String
}

extension SharedEnd {
    static let header = "Forebay-Control"

    /// What a message is for, if it is for nodes; nil if it is for subscribers.
    static func control(_ headers: NATSHeaders) -> String? { headers["Forebay-Control"]?.text }

    /// The end that a message of a stream stands for; nil if it is none.
    init?(_ headers: NATSHeaders, _ payload: UnsafeRawBufferPointer) {
        guard let name = SharedEnd.control(headers) else { return nil }
        self.init(name: name, reason: payload.text)
    }

    fileprivate init?(name: String, reason: String) {
        switch name {
        case "completed": self = .completed
        case "failed": self = .failed(reason)
        case "deleted": self = .deleted
        default: return nil
        }
    }

    fileprivate var name: String {
        switch self {
        case .completed: "completed"
        case .failed: "failed"
        case .deleted: "deleted"
        }
    }

    /// The payload of the control message.
    var reason: String { if case .failed(let reason) = self { reason } else { "" } }

    /// Writes the headers of the control message.
    func write(id: String, stream: String, into headers: inout NATSHeaderBlock) throws(NATSError) {
        headers.removeAll()
        try headers.append(SharedEnd.header, name)
        try headers.append("Nats-Msg-Id", id)
        try headers.append("Nats-Expected-Stream", stream)
    }
}

extension StreamEnd {
    private static let key = "forebay-end"
    private static let sequenceKey = "forebay-end-sequence"
    private static let reasonKey = "forebay-end-reason"
    private static let idKey = "forebay-end-id"

    /// What records it in the stream's metadata.
    var metadata: [String: String] {
        [
            StreamEnd.key: end.name, StreamEnd.sequenceKey: String(sequence.value), StreamEnd.reasonKey: end.reason,
            StreamEnd.idKey: id,
        ]
    }

    /// The end that is recorded in a stream's metadata; nil if there is none.
    init?(metadata: [String: String]) {
        guard let name = metadata[StreamEnd.key],
            let end = SharedEnd(name: name, reason: metadata[StreamEnd.reasonKey] ?? ""),
            let sequence = metadata[StreamEnd.sequenceKey].flatMap({ UInt64($0) }), sequence > 0
        else { return nil }
        self.init(end: end, sequence: SequenceNumber(sequence), id: metadata[StreamEnd.idKey] ?? "")
    }

    /// The end that a message stands for; nil if it is another one.
    init?(_ message: JetStreamMessage) {
        guard let headers = message.headers, let end = SharedEnd(headers, message.payload) else { return nil }
        self.init(
            end: end, sequence: SequenceNumber(message.sequence), id: headers["Nats-Msg-Id"]?.text ?? "")
    }
}
