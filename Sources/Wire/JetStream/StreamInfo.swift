// StreamInfo: a stream and the messages that it has; StreamNames and StreamList: the streams that exist.

import Bytes
import JSONParsing
import NATS

/// The answer to `JetStreamRequest.info` and `create`.
public struct StreamInfo {
    public var name: String
    public var subjects: [String]
    /// Whether the stream takes no more messages.
    public var isSealed: Bool
    public var metadata: [String: String]
    public var messages: UInt64
    /// The sequence of the oldest message; `lastSequence + 1` if there is none.
    public var firstSequence: UInt64
    /// The sequence of the newest message that the stream has stored, although it may be deleted; 0 before the first.
    /// At most `Int64.max`.
    public var lastSequence: UInt64
    /// The stream's configuration as the server answered it, for updates.
    private let configuration: JSONValue

    /// - Throws: the error that the server answered, or that the answer is malformed.
    public init(_ message: NATSMessage) throws(JetStreamError) {
        try self.init(JetStreamAnswer(message).root)
    }

    fileprivate init(_ answer: JSONValue) throws(JetStreamError) {
        guard let configuration = answer["config"] else { throw .missing("config") }
        guard let state = answer["state"] else { throw .missing("state") }
        self.configuration = configuration
        name = try configuration.text("name")
        guard let subjects = configuration["subjects"]?.strings else { throw .missing("subjects") }
        self.subjects = subjects
        isSealed = configuration["sealed"]?.isTrue ?? false
        metadata = [:]
        for name in configuration["metadata"]?.names ?? [] {
            metadata[name] = configuration["metadata"]?[name]?.string
        }
        messages = try state.count("messages")
        lastSequence = try state.count("last_seq")
        let first = try state.count("first_seq")
        // The server reports 0 for a stream that never had a message.
        firstSequence = messages == 0 ? lastSequence + 1 : first
        guard firstSequence > 0, firstSequence <= lastSequence + 1 else {
            throw .malformed("Its first_seq is 0 or after its last_seq.")
        }
    }

    /// The stream's configuration as JSON, with other values for some members.
    func configuration(replacing members: [(name: String, json: String)]) -> String {
        let kept = (configuration.names ?? []).filter { name in !members.contains { $0.name == name } }
        return JSONText.object(kept.map { ($0, configuration[$0]?.text ?? "null") } + members)
    }
}

/// The answer to `JetStreamRequest.findStream`.
public struct StreamNames: Equatable, Sendable {
    /// The first of them; the server lists at most 1024.
    public var names: [String]

    /// - Throws: the error that the server answered, or that the answer is malformed.
    public init(_ message: NATSMessage) throws(JetStreamError) {
        let answer = try JetStreamAnswer(message)
        let streams = try answer.member("streams")
        // The server answers null for none.
        if try answer.root.count("total") == 0 {
            names = []
        } else {
            guard let names = streams.strings else { throw .missing("streams") }
            self.names = names
        }
    }
}

/// The answer to `JetStreamRequest.streams`.
public struct StreamList {
    public var streams: [StreamInfo]
    /// How many streams there are, with those before and after these.
    public var total: Int
    /// How many streams are missing, because their leaders did not answer.
    public var missing: Int

    /// - Throws: the error that the server answered, or that the answer is malformed.
    public init(_ message: NATSMessage) throws(JetStreamError) {
        let answer = try JetStreamAnswer(message).root
        total = Int(clamping: try answer.count("total"))
        missing = answer["missing"]?.elements?.count ?? 0
        streams = []
        // The server answers null for none.
        for stream in answer["streams"]?.elements ?? [] { streams.append(try StreamInfo(stream)) }
    }
}
