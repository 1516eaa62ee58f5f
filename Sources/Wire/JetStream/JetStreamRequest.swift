// JetStreamRequest: a request of JetStream's API: where to publish it, and its JSON.

import Bytes

/// A request to publish with a reply subject, to which the answer comes. The names in it must be valid: a stream's
/// name is one token of a subject.
public struct JetStreamRequest: Sendable {
    public var subject: String
    public var payload: [UInt8]

    private init(_ operation: String, _ json: String = "") {
        subject = "$JS.API." + operation
        payload = Array(json.utf8)
    }

    /// Asks for the account's use of JetStream. The answer shows that JetStream works, and that most of its servers do.
    public static let accountInfo = JetStreamRequest("INFO")

    /// Asks for the streams that have a subject; the answer is `StreamNames`.
    public static func findStream(bySubject subject: String) -> JetStreamRequest {
        JetStreamRequest("STREAM.NAMES", "{\"subject\":\(JSONText.quoted(subject))}")
    }

    /// Asks for the streams with subjects that a filter matches; the answer is `StreamList`.
    /// - Parameter offset: how many of them to skip.
    public static func streams(withSubjects filter: String, offset: Int) -> JetStreamRequest {
        JetStreamRequest("STREAM.LIST", "{\"subject\":\(JSONText.quoted(filter)),\"offset\":\(offset)}")
    }

    /// Asks the stream's leader; the answer is `StreamInfo`.
    public static func info(_ stream: String) -> JetStreamRequest { JetStreamRequest("STREAM.INFO.\(stream)") }

    /// Deletes a stream with all its messages.
    public static func delete(_ stream: String) -> JetStreamRequest { JetStreamRequest("STREAM.DELETE.\(stream)") }

    /// Creates a stream. The answer is `StreamInfo`, also if the stream exists with the same configuration.
    public static func create(_ configuration: StreamConfiguration) -> JetStreamRequest {
        JetStreamRequest("STREAM.CREATE.\(configuration.name)", configuration.json)
    }

    /// Seals a stream, so that it takes no more messages and keeps those it has, and sets metadata. The answer is
    /// `StreamInfo`, also if the stream is sealed already.
    public static func seal(_ stream: StreamInfo, metadata: [String: String]) -> JetStreamRequest {
        let all = stream.metadata.merging(metadata) { $1 }
        // A sealed stream has these values, and its updates must have them.
        return update(
            stream,
            [
                ("metadata", JSONText.object(all)), ("sealed", "true"), ("discard", "\"new\""), ("deny_delete", "true"),
                ("deny_purge", "true"), ("max_age", "0"), ("allow_rollup_hdrs", "false"),
            ])
    }

    /// Takes a stream off its subjects, for another one. It then has only a subject that nobody publishes to. The
    /// answer is `StreamInfo`.
    public static func retire(_ stream: StreamInfo, metadata: [String: String]) -> JetStreamRequest {
        let all = stream.metadata.merging(metadata) { $1 }
        return update(stream, [("subjects", "[]"), ("republish", "null"), ("metadata", JSONText.object(all))])
    }

    private static func update(_ stream: StreamInfo, _ members: [(name: String, json: String)]) -> JetStreamRequest {
        JetStreamRequest("STREAM.UPDATE.\(stream.name)", stream.configuration(replacing: members))
    }

    /// Asks the stream's leader for the last message with a subject; the answer is `StoredMessage`.
    public static func lastMessage(_ subject: String, _ stream: String) -> JetStreamRequest {
        JetStreamRequest("STREAM.MSG.GET.\(stream)", "{\"last_by_subj\":\(JSONText.quoted(subject))}")
    }

    /// Asks the stream's leader for a message; the answer is `StoredMessage`.
    public static func message(_ sequence: UInt64, _ stream: String) -> JetStreamRequest {
        JetStreamRequest("STREAM.MSG.GET.\(stream)", "{\"seq\":\(sequence)}")
    }

    /// Asks any server that has the stream for messages; each answer is a `DirectGetItem`.
    /// - Parameters:
    ///   - from: the lowest sequence, 1 or more.
    ///   - count: the most messages, 1 or more.
    ///   - maxBytes: the most bytes, 1 or more; the first message may be larger.
    public static func directGet(_ stream: String, from: UInt64, count: Int, maxBytes: Int) -> JetStreamRequest {
        JetStreamRequest("DIRECT.GET.\(stream)", "{\"seq\":\(from),\"batch\":\(count),\"max_bytes\":\(maxBytes)}")
    }
}
