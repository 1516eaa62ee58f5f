// JetStreamRequest: requests to the API of NATS JetStream. A request is published with a reply subject, to which the
// server sends the answer. https://docs.nats.io/reference/reference-protocols/nats_api_reference
//
// A server refuses requests with members that it does not know, so they have only what every server since 2.11 knows.

import Bytes

public struct JetStreamRequest: Equatable, Sendable {
    public let subject: String
    public let payload: [UInt8]

    private init(_ operation: String, _ body: JSONObjectWriter? = nil) {
        subject = "$JS.API." + operation
        payload = body?.finished ?? []
    }

    /// The names of the streams that store messages of `subject`, which may have wildcards. `StreamNames` reads the
    /// answer.
    public static func findStream(bySubject subject: String) -> JetStreamRequest {
        var body = JSONObjectWriter()
        body.add("subject", subject)
        return JetStreamRequest("STREAM.NAMES", body)
    }

    /// Creates a stream. If there is one of that name with the same configuration, the answer is the same.
    /// `StreamInfo` reads the answer.
    public static func create(_ configuration: StreamConfiguration) -> JetStreamRequest {
        JetStreamRequest("STREAM.CREATE.\(configuration.name)", configuration.json)
    }

    /// A stream's state according to its leader. `StreamInfo` reads the answer.
    public static func info(_ stream: String) -> JetStreamRequest { JetStreamRequest("STREAM.INFO.\(stream)") }

    public static func delete(_ stream: String) -> JetStreamRequest { JetStreamRequest("STREAM.DELETE.\(stream)") }

    /// A message, from the stream's leader. `StoredMessage` reads the answer.
    public static func message(_ sequence: UInt64, _ stream: String) -> JetStreamRequest {
        var body = JSONObjectWriter()
        body.add("seq", sequence)
        return JetStreamRequest("STREAM.MSG.GET.\(stream)", body)
    }

    /// Up to `count` messages from `sequence` on, from any replica, which may lack the newest. The answers are messages
    /// and an end, which `DirectGetItem` reads. The message that reaches `maxBytes` is the last one.
    public static func directGet(
        _ stream: String, from sequence: UInt64, count: Int, maxBytes: Int
    ) -> JetStreamRequest {
        var body = JSONObjectWriter()
        body.add("seq", sequence)
        body.add("batch", UInt64(count))
        body.add("max_bytes", UInt64(maxBytes))
        return JetStreamRequest("DIRECT.GET.\(stream)", body)
    }
}

/// Writes a JSON object.
struct JSONObjectWriter: Equatable, Sendable {
    private var bytes: [UInt8] = [UInt8(ascii: "{")]

    var finished: [UInt8] { bytes + [UInt8(ascii: "}")] }

    private mutating func begin(_ name: String) {
        if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
        JSONText.append(name, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
    }

    mutating func add(_ name: String, _ value: String) {
        begin(name)
        JSONText.append(value, to: &bytes)
    }

    mutating func add(_ name: String, _ value: some BinaryInteger) {
        begin(name)
        bytes += Array("\(value)".utf8)
    }

    mutating func add(_ name: String, _ value: Bool) {
        begin(name)
        bytes += Array((value ? "true" : "false").utf8)
    }

    mutating func add(_ name: String, _ values: [String]) {
        begin(name)
        bytes.append(UInt8(ascii: "["))
        for (index, value) in values.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            JSONText.append(value, to: &bytes)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    mutating func add(_ name: String, _ object: JSONObjectWriter) {
        begin(name)
        bytes += object.finished
    }
}
