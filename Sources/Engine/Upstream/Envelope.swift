// Envelope: how a message of a topic lies in a stream. Its payload is the message's payload; headers have the rest:
//
//     Forebay: 1                    the form of the message; others are control messages and are not delivered
//     Forebay-Metadata: BASE64      the publisher's metadata, if any
//     Nats-Msg-Id: NODE.TICKET      who published it, for JetStream's search for duplicates and for the node itself
//     Nats-Expected-Stream: NAME    the epoch that the publisher means

import Bytes
import Core
import NATS

struct Envelope {
    private static let form: StaticString = "1"

    /// The publisher's metadata in Base64; nil if there is none.
    let metadata: UnsafeRawBufferPointer?
    /// The message's id; nil if it has none.
    let id: UnsafeRawBufferPointer?

    /// The envelope of a message in a stream; nil for a control message.
    init?(_ headers: NATSHeaders) {
        guard let form = headers["Forebay"], form.elementsEqual(Envelope.form.bytes) else { return nil }
        metadata = headers["Forebay-Metadata"]
        id = headers["Nats-Msg-Id"]
    }

    /// Writes the headers of a publish.
    /// - Throws: if the metadata does not fit headers.
    static func write(
        id: String, stream: String, metadata: UnsafeRawBufferPointer?, into headers: inout NATSHeaderBlock
    ) throws(NATSError) {
        headers.removeAll()
        try headers.append("Forebay", "1")
        try headers.append("Nats-Msg-Id", id)
        try headers.append("Nats-Expected-Stream", stream)
        if let metadata { try headers.append("Forebay-Metadata", Base64.encode(metadata)) }
    }
}

extension StaticString {
    fileprivate var bytes: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
    }
}
