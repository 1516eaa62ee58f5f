// Envelope: how a message of a topic lies in a stream. Its payload is the message's payload; headers have the rest:
//
//     Forebay: 1                    the form of the message; others are control messages and are not delivered
//     Forebay-Metadata: BASE64      the publisher's metadata, if any
//     Forebay-Number: N             the message's number, if it has one; its subject names the publisher
//     Nats-Msg-Id: NODE.TICKET      who published it, for JetStream's search for duplicates and for the node itself
//     Nats-Expected-Stream: NAME    the epoch that the publisher means
//     Nats-Expected-Last-Subject-Sequence: SEQUENCE    of the publisher's last message; 0 for the first

import Bytes
import Core
import NATS
import Replay

struct Envelope {
    private static let form: StaticString = "1"

    /// The publisher's metadata in Base64; nil if there is none.
    let metadata: UnsafeRawBufferPointer?
    /// The message's id; nil if it has none.
    let id: UnsafeRawBufferPointer?
    /// 1 or more; nil if the message is not numbered.
    let number: UInt64?

    /// The envelope of a message in a stream; nil for a control message.
    init?(_ headers: NATSHeaders) {
        var form: UnsafeRawBufferPointer?
        var metadata: UnsafeRawBufferPointer?
        var id: UnsafeRawBufferPointer?
        var number: UnsafeRawBufferPointer?
        // Of several values the first counts.
        headers.forEach { name, value in
            if form == nil, name.isEqual(to: "Forebay") {
                form = value
            } else if id == nil, name.isEqual(to: "Nats-Msg-Id") {
                id = value
            } else if metadata == nil, name.isEqual(to: "Forebay-Metadata") {
                metadata = value
            } else if number == nil, name.isEqual(to: "Forebay-Number") {
                number = value
            }
        }
        guard let form, form.isEqual(to: Envelope.form) else { return nil }
        self.metadata = metadata
        self.id = id
        self.number = number?.decimal.flatMap { $0 > 0 ? $0 : nil }
    }

    /// Writes the headers of a publish.
    /// - Parameter expected: the sequence of the publisher's last message; nil if the message is not numbered.
    /// - Throws: if the metadata does not fit headers.
    static func write(
        id: String, stream: String, number: UInt64?, expected: SequenceNumber?, metadata: UnsafeRawBufferPointer?,
        into headers: inout NATSHeaderBlock
    ) throws(NATSError) {
        headers.removeAll()
        try headers.append("Forebay", "1")
        try headers.append("Nats-Msg-Id", id)
        try headers.append("Nats-Expected-Stream", stream)
        if let number, let expected {
            try headers.append("Forebay-Number", String(number))
            try headers.append("Nats-Expected-Last-Subject-Sequence", String(expected.value))
        }
        if let metadata { try headers.append("Forebay-Metadata", Base64.encode(metadata)) }
    }
}
