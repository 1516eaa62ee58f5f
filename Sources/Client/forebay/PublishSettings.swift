// PublishSettings: the settings of `pub`.

import Bytes
import Client
import EventLoop
import ForebayWire
import RSocket

struct PublishSettings {
    enum Source {
        case message([UInt8])
        /// The content of a file.
        case file(String)
        case lines
        /// Generated payloads of this many bytes.
        case size(Int)
    }

    let topic: String
    let source: Source
    /// The total number of messages; nil for no limit, or for as many as there are lines.
    let count: UInt64?
    let rate: Double?
    let ack: Bool
    let complete: Bool
    let json: Bool
    /// The properties of each message.
    let properties: MessageProperties
    /// The publisher's id, if messages are numbered.
    let publisher: String?

    /// The most bytes in a line of standard input.
    static let lineLimit = 1 << 20
    /// The most bytes in a file.
    static let fileLimit = 1 << 30

    init(_ arguments: Arguments) throws(UsageError) {
        topic = arguments.operands[0]
        ack = arguments.has("ack")
        complete = arguments.has("complete")
        json = arguments.has("json")
        rate = arguments.decimal("rate")
        let sources = [
            arguments.operands.count > 1 ? "MESSAGE" : nil, arguments.has("stdin") ? "--stdin" : nil,
            arguments.has("size") ? "--size" : nil, arguments.has("file") ? "--file" : nil,
        ].compactMap { $0 }
        if sources.count > 1 {
            throw UsageError("\(sources[0]) and \(sources[1]) are mutually exclusive; both specify what to publish.")
        }
        if arguments.has("forever") {
            if arguments.has("count") { throw UsageError("--forever and --count are mutually exclusive.") }
            if arguments.has("stdin") {
                throw UsageError("--forever cannot be used with --stdin, which ends by itself.")
            }
        }
        if arguments.operands.count > 1 {
            source = .message(Array(arguments.operands[1].utf8))
            count = arguments.number("count") ?? (arguments.has("forever") ? nil : 1)
        } else if let file = arguments.text("file") {
            source = .file(file)
            count = arguments.number("count") ?? (arguments.has("forever") ? nil : 1)
        } else if arguments.has("stdin") {
            source = .lines
            count = arguments.number("count")
        } else if let size = arguments.number("size") {
            source = .size(Int(size))
            count = arguments.number("count") ?? (arguments.has("forever") ? nil : 1)
        } else {
            throw UsageError("There is nothing to publish; give a MESSAGE, --file, --stdin or --size.")
        }
        properties = try Self.properties(arguments)
        publisher = arguments.text("publisher")
        if let publisher, let fault = PublisherNumber.fault(id: publisher) { throw UsageError(fault) }
        try SubscribeSettings.check(topic: topic)
        if topic.hasPrefix("$SYS.") {
            throw UsageError("'\(topic)' is the broker's own; clients cannot publish there.")
        }
    }

    /// The payload of a single message; empty for other sources.
    func content() throws(UsageError) -> [UInt8] {
        switch source {
        case .message(let bytes): bytes
        case .file(let path): try Self.content(of: path)
        case .lines, .size: []
        }
    }

    private static func content(of file: String) throws(UsageError) -> [UInt8] {
        guard let bytes = Machine.bytes(ofFile: file == "-" ? "/dev/stdin" : file, limit: fileLimit + 1) else {
            throw UsageError("The file '\(file)' cannot be read.")
        }
        guard bytes.count <= fileLimit else {
            throw UsageError(
                "The file '\(file)' is larger than \(Units.bytes(UInt64(fileLimit))), the limit for a message.")
        }
        return bytes
    }

    private static func properties(_ arguments: Arguments) throws(UsageError) -> MessageProperties {
        var properties = MessageProperties(contentType: arguments.text("content-type") ?? "")
        if arguments.has("content-type"), !properties.contentType.contains("/") {
            throw UsageError("--content-type takes a MIME type such as text/plain, not '\(properties.contentType)'.")
        }
        for header in arguments.texts("header") {
            guard let equals = header.firstIndex(of: "="), equals > header.startIndex else {
                throw UsageError("--header takes NAME=VALUE, not '\(header)'.")
            }
            properties.headers.append((String(header[..<equals]), String(header[header.index(after: equals)...])))
        }
        guard properties.isValid else {
            throw UsageError(
                "A content type has at most 128 ASCII characters, and a message at most "
                    + "\(MessageProperties.mostHeaders) headers with short names.")
        }
        return properties
    }

    /// Whether one message is published without a channel. Numbered messages use one, to be repeated after a lost
    /// connection.
    var isSingle: Bool { isOneMessage && publisher == nil }

    /// Whether one message is published.
    var isOneMessage: Bool {
        switch source {
        case .message, .file: count == 1 && !complete
        case .lines, .size: false
        }
    }
}
