// NATSWriter: what a client sends, as bytes.

import Bytes

/// Appends operations of a client to a buffer.
enum NATSWriter {
    static func ping(into out: inout ByteBuffer) { out.append("PING\r\n") }

    static func pong(into out: inout ByteBuffer) { out.append("PONG\r\n") }

    /// CONNECT, with the members of `request` that are set.
    static func connect(_ request: NATSConnect, into out: inout ByteBuffer) {
        var json: [UInt8] = Array("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true".utf8)
        json += ",\"no_responders\":true,\"echo\":true,\"protocol\":1,\"lang\":\"swift\"".utf8
        json += ",\"tls_required\":\(request.usesTLS)".utf8
        let members: [(StaticString, String?)] = [
            (",\"version\":", request.version), (",\"name\":", request.name), (",\"user\":", request.user),
            (",\"pass\":", request.password), (",\"auth_token\":", request.token), (",\"jwt\":", request.jwt),
            (",\"nkey\":", request.nkey), (",\"sig\":", request.signature),
        ]
        for case (let name, let value?) in members {
            json += UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
            JSONText.append(value, to: &json)
        }
        json += "}\r\n".utf8
        out.append(json)
    }

    /// PUB, or HPUB if there are headers.
    /// - Parameter reply: the subject for answers; nil for none.
    /// - Throws: if a subject is invalid, or the line is longer than `NATSLimits.maxWrittenLine`. Nothing is written.
    static func publish(
        _ subject: String, reply: String? = nil, headers: NATSHeaderBlock? = nil, payload: UnsafeRawBufferPointer,
        into out: inout ByteBuffer
    ) throws(NATSError) {
        guard NATSSubject.isValid(subject) else { throw invalid(subject) }
        if let reply, !NATSSubject.isValid(reply) { throw invalid(reply) }
        let size = (headers?.size ?? 0) + payload.count
        let sizes = headers.map { RawWriter.digits(UInt64($0.size)) + 1 } ?? 0
        let line =
            (headers == nil ? 4 : 5) + subject.utf8.count + 1 + (reply.map { $0.utf8.count + 1 } ?? 0) + sizes
            + RawWriter.digits(UInt64(size))
        try check(line)
        var writer = RawWriter(out.reserve(line + 2 + size + 2))
        writer.put(headers == nil ? "PUB " : "HPUB ")
        writer.put(subject, 0x20)
        if let reply { writer.put(reply, 0x20) }
        if let headers {
            writer.put(decimal: UInt64(headers.size))
            writer.put(0x20)
        }
        writer.put(decimal: UInt64(size))
        writer.put("\r\n")
        if let headers {
            headers.bytes.withUnsafeBytes { writer.put($0) }
            writer.put("\r\n")
        }
        writer.put(payload)
        writer.put("\r\n")
        out.commit(line + 2 + size + 2)
    }

    /// SUB.
    /// - Parameters:
    ///   - queue: the group among whose members each message goes to one; nil for none.
    ///   - subscription: an id for the messages of this subscription, unique on its connection.
    /// - Throws: if the filter or the group is invalid or too long. Nothing is written.
    static func subscribe(
        _ filter: String, queue: String? = nil, subscription: UInt64, into out: inout ByteBuffer
    ) throws(NATSError) {
        guard NATSSubject.isValid(filter: filter) else { throw invalid(filter) }
        if let queue, !NATSSubject.isValid(queue: queue) {
            throw .call(.invalid, "A queue group must have a name without spaces and control characters.")
        }
        let size =
            4 + filter.utf8.count + 1 + (queue.map { $0.utf8.count + 1 } ?? 0) + RawWriter.digits(subscription)
        try check(size)
        var writer = RawWriter(out.reserve(size + 2))
        writer.put("SUB ")
        writer.put(filter, 0x20)
        if let queue { writer.put(queue, 0x20) }
        writer.put(decimal: subscription)
        writer.put("\r\n")
        out.commit(size + 2)
    }

    /// UNSUB.
    /// - Parameter max: the number of messages since SUB after which the subscription ends; nil for now.
    static func unsubscribe(_ subscription: UInt64, after max: UInt64? = nil, into out: inout ByteBuffer) {
        out.append(max.map { "UNSUB \(subscription) \($0)\r\n" } ?? "UNSUB \(subscription)\r\n")
    }

    private static func invalid(_ subject: String) -> NATSError {
        .call(.invalid, "\(JSONText.quoted(String(subject.prefix(200)))) is not a valid NATS subject.")
    }

    private static func check(_ line: Int) throws(NATSError) {
        guard line <= NATSLimits.maxWrittenLine else {
            throw .call(
                .tooLarge,
                "The subjects are too long: a line has \(line) bytes, and the limit is \(NATSLimits.maxWrittenLine).")
        }
    }
}

/// The members of CONNECT that vary; nil for those to leave out.
struct NATSConnect: Sendable {
    /// The version of this program, and a name for the server's lists of connections.
    var version: String
    var name: String
    var usesTLS = false
    var user: String?
    var password: String?
    var token: String?
    var jwt: String?
    /// A user's key, and the signature of the server's nonce in base64url without padding.
    var nkey: String?
    var signature: String?

    init(version: String, name: String) {
        self.version = version
        self.name = name
    }
}

extension RawWriter {
    /// Writes `text` and then a byte.
    fileprivate mutating func put(_ text: String, _ last: UInt8) {
        var text = text
        text.withUTF8 { put(UnsafeRawBufferPointer($0)) }
        put(last)
    }
}
