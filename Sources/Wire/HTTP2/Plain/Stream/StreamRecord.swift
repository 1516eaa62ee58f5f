// StreamRecord: one message as written in a stream, measured first and then written into memory of that size. It does
// not allocate; the payload is scanned once to measure and once to write.
//
//     event: gap                                 {"sequence":42,"epoch":"66…33","timestamp":"17…00",
//     data: {"dropped":3}                         "dropped":3,"payload":"4.1 C","content_type":"text/plain",
//                                                 "headers":{"unit":"celsius"}}
//     id: 6616333571386961933-42
//     data: 4.1 C
//
// In a stream of a pattern, each message names its topic, and has no id:
//
//     event: topic                               {"sequence":42,"epoch":"66…33","timestamp":"17…00",
//     data: {"topic":"weather.oslo","epoch":…}    "dropped":3,"topic":"weather.oslo","payload":"4.1 C"}
//
//     event: gap
//     data: {"dropped":3}
//
//     data: 4.1 C

import Bytes
import RSocket

/// A message for a stream, with its loss information. The pointers are the caller's.
public struct StreamedMessage {
    public var epoch: UInt64
    public var sequence: UInt64
    /// Nanoseconds since 1970.
    public var timestamp: Int64
    /// How many messages the subscription lost just before this one.
    public var dropped: UInt64
    /// Whether this is the first message of a stream that does not resume where the client asked, because the topic has
    /// no such position. This is reported as a gap of unknown size.
    public var restarts = false
    /// The publisher's composite metadata.
    public var metadata: UnsafeRawBufferPointer
    public var payload: UnsafeRawBufferPointer
    /// The topic's name, in the stream of a pattern; empty in that of one topic.
    public var topic = UnsafeRawBufferPointer(start: nil, count: 0)

    public init(
        epoch: UInt64, sequence: UInt64, timestamp: Int64, dropped: UInt64 = 0,
        metadata: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        payload: UnsafeRawBufferPointer
    ) {
        self.epoch = epoch
        self.sequence = sequence
        self.timestamp = timestamp
        self.dropped = dropped
        self.metadata = metadata
        self.payload = payload
    }
}

/// A message, measured for the format in which it will be written.
public struct StreamRecord {
    /// Bytes that `write` writes.
    public let size: Int
    private let message: StreamedMessage
    private let form: Form

    private enum Form {
        /// Lines of text; 0 for a payload that needs base64.
        case event(lines: Int)
        /// Bytes added by escapes; nil for a payload that needs base64.
        case json(escapes: Int?, contentType: UnsafeRawBufferPointer?)
    }

    public init(_ message: StreamedMessage, as format: StreamFormat) {
        self.message = message
        switch format {
        case .eventStream:
            let lines = TextScan.lines(message.payload) ?? 0
            form = .event(lines: lines)
            size = StreamRecord.eventSize(message, lines: lines)
        case .jsonLines:
            let escapes = JSONText.escapes(message.payload)
            let contentType = CarriedItems.contentType(of: message.metadata)
            form = .json(escapes: escapes, contentType: contentType)
            size = StreamRecord.jsonSize(message, escapes: escapes, contentType)
        }
    }

    /// Writes `size` bytes.
    public func write(to target: UnsafeMutableRawPointer) {
        var out = RawWriter(target)
        switch form {
        case .event(let lines): writeEvent(lines: lines, to: &out)
        case .json(let escapes, let contentType): writeJSON(escapes: escapes, contentType, to: &out)
        }
        assert(out.end == target + size, "a record does not have its measured size")
    }

    public func append(into out: inout ByteBuffer) {
        write(to: out.reserve(size))
        out.commit(size)
    }

    // MARK: Server-sent events

    /// Bytes of the event that names a message's topic. Names need no escapes.
    static func topicSize(_ topic: Int, epoch: UInt64, sequence: UInt64, timestamp: Int64) -> Int {
        let text = "event: topic\ndata: {\"topic\":\"\",\"epoch\":\"\",\"sequence\":,\"timestamp\":\"\"}\n\n"
        return text.utf8.count + topic + RawWriter.digits(epoch) + RawWriter.digits(sequence)
            + RawWriter.digits(timestamp)
    }

    private static func eventSize(_ message: StreamedMessage, lines: Int) -> Int {
        let (epoch, sequence) = (message.epoch, message.sequence)
        var size =
            message.topic.isEmpty
            ? "id: -\n".utf8.count + RawWriter.digits(epoch) + RawWriter.digits(sequence)
            : topicSize(message.topic.count, epoch: epoch, sequence: sequence, timestamp: message.timestamp)
        if message.dropped > 0 || message.restarts {
            size += "event: gap\ndata: {\"dropped\":}\n\n".utf8.count + RawWriter.digits(message.dropped)
            if message.restarts { size += ",\"restarted\":true".utf8.count }
        }
        if lines > 0 {
            size += "data: ".utf8.count * lines + message.payload.count
        } else {
            size += "event: base64\ndata: ".utf8.count + Base64.size(message.payload.count)
        }
        return size + 2
    }

    private func writeTopic(to out: inout RawWriter) {
        out.put("event: topic\ndata: {\"topic\":\"")
        out.put(message.topic)
        out.put("\",\"epoch\":\"")
        out.put(decimal: message.epoch)
        out.put("\",\"sequence\":")
        out.put(decimal: message.sequence)
        out.put(",\"timestamp\":\"")
        out.put(decimal: message.timestamp)
        out.put("\"}\n\n")
    }

    private func writeEvent(lines: Int, to out: inout RawWriter) {
        if !message.topic.isEmpty { writeTopic(to: &out) }
        if message.dropped > 0 || message.restarts {
            out.put("event: gap\ndata: {\"dropped\":")
            out.put(decimal: message.dropped)
            if message.restarts { out.put(",\"restarted\":true") }
            out.put("}\n\n")
        }
        if message.topic.isEmpty {
            out.put("id: ")
            out.put(decimal: message.epoch)
            out.put(UInt8(ascii: "-"))
            out.put(decimal: message.sequence)
            out.put(UInt8(ascii: "\n"))
        }
        switch lines {
        case 0:
            out.put("event: base64\ndata: ")
            out.put(base64: message.payload)
        case 1:
            out.put("data: ")
            out.put(message.payload)
        default:
            writeLines(to: &out)
        }
        out.put("\n\n")
    }

    private func writeLines(to out: inout RawWriter) {
        var rest = message.payload
        while true {
            out.put("data: ")
            guard let end = rest.firstIndex(of: 0x0A) else {
                out.put(rest)
                return
            }
            out.put(rest.slice(0..<end))
            out.put(UInt8(ascii: "\n"))
            rest = rest.slice(end + 1..<rest.count)
        }
    }

    // MARK: JSON

    /// Bytes before a record's loss members, without the digits of its numbers.
    static let jsonHead = "{\"sequence\":,\"epoch\":\"\",\"timestamp\":\"\"".utf8.count

    private static func jsonSize(
        _ message: StreamedMessage, escapes: Int?, _ contentType: UnsafeRawBufferPointer?
    ) -> Int {
        var size = jsonHead + "}\n".utf8.count
        size += RawWriter.digits(message.sequence) + RawWriter.digits(message.epoch)
        size += RawWriter.digits(message.timestamp)
        if message.dropped > 0 { size += ",\"dropped\":".utf8.count + RawWriter.digits(message.dropped) }
        if message.restarts { size += ",\"restarted\":true".utf8.count }
        if !message.topic.isEmpty { size += ",\"topic\":\"\"".utf8.count + message.topic.count }
        if let escapes {
            size += ",\"payload\":\"\"".utf8.count + message.payload.count + escapes
        } else {
            size += ",\"payload_base64\":\"\"".utf8.count + Base64.size(message.payload.count)
        }
        if let type = contentType {
            size += ",\"content_type\":\"\"".utf8.count + type.count + (JSONText.escapes(type) ?? 0)
        }
        var headers = 0
        var items = CarriedItems(message.metadata)
        while let item = items.next() {
            guard case .header(let header) = item else { continue }
            headers += 1
            size += header.jsonSize
        }
        // The braces, and the commas between headers.
        return headers == 0 ? size : size + ",\"headers\":{}".utf8.count + headers - 1
    }

    private func writeJSON(escapes: Int?, _ contentType: UnsafeRawBufferPointer?, to out: inout RawWriter) {
        out.put("{\"sequence\":")
        out.put(decimal: message.sequence)
        out.put(",\"epoch\":\"")
        out.put(decimal: message.epoch)
        out.put("\",\"timestamp\":\"")
        out.put(decimal: message.timestamp)
        out.put(UInt8(ascii: "\""))
        if message.dropped > 0 {
            out.put(",\"dropped\":")
            out.put(decimal: message.dropped)
        }
        if message.restarts { out.put(",\"restarted\":true") }
        if !message.topic.isEmpty {
            out.put(",\"topic\":\"")
            out.put(message.topic)
            out.put(UInt8(ascii: "\""))
        }
        switch escapes {
        case .none:
            out.put(",\"payload_base64\":\"")
            out.put(base64: message.payload)
        case .some(0):
            out.put(",\"payload\":\"")
            out.put(message.payload)
        case .some:
            out.put(",\"payload\":\"")
            JSONText.write(message.payload, to: &out)
        }
        out.put(UInt8(ascii: "\""))
        if let type = contentType {
            out.put(",\"content_type\":\"")
            JSONText.write(type, to: &out)
            out.put(UInt8(ascii: "\""))
        }
        writeHeaders(to: &out)
        out.put("}\n")
    }

    private func writeHeaders(to out: inout RawWriter) {
        var isFirst = true
        var items = CarriedItems(message.metadata)
        while let item = items.next() {
            guard case .header(let header) = item else { continue }
            out.put(isFirst ? ",\"headers\":{" : ",")
            isFirst = false
            header.writeJSON(to: &out)
        }
        if !isFirst { out.put(UInt8(ascii: "}")) }
    }
}
