// JetStreamError: why JetStream did not do what it was asked. The numbers are those of nats-server's errors.json.

import ForebayWire

/// An error that the server answered, or an answer that cannot be read.
public struct JetStreamError: Error, Equatable, Sendable, CustomStringConvertible {
    public enum Kind: CaseIterable, Sendable {
        case streamNotFound
        case messageNotFound
        /// Another stream has a subject of the stream to create.
        case subjectsOverlap
        /// The stream to create exists with another configuration.
        case nameInUse
        /// The last message of the stream, or of its subject, is not the one that the publisher expected.
        case wrongLastSequence
        /// The subject belongs to a stream other than the one that the publisher expected.
        case wrongStream
        /// The stream takes no more messages.
        case sealed
        case tooLarge
        /// A stream or a server has no room.
        case full
        case accountLimit
        case notEnabled
        /// The servers cannot have that many replicas.
        case replicas
        /// The same request may succeed later.
        case temporary
        /// The answer cannot be read. The request may have succeeded.
        case malformed
        case other
    }

    public let kind: Kind
    /// The server's number, `err_code`; nil if it did not answer with one.
    public let code: Int?
    /// What is wrong and what to do about it.
    public let sentence: String

    /// Whether the same request may succeed later.
    public var isTemporary: Bool { kind == .temporary || kind == .malformed }

    /// What the text for clients begins with.
    public var word: ErrorWord {
        switch kind {
        case .streamNotFound, .messageNotFound: .notFound
        case .wrongLastSequence: .publisher
        case .sealed: .ended
        case .tooLarge: .tooLarge
        case .full, .accountLimit: .limit
        case .malformed: .protocol
        case .subjectsOverlap, .nameInUse, .wrongStream, .notEnabled, .replicas, .temporary, .other: .unavailable
        }
    }

    /// The word, a colon, a space and the sentence.
    public var description: String { word.text(sentence) }

    private init(_ kind: Kind, code: Int?, _ sentence: String) {
        self.kind = kind
        self.code = code
        self.sentence = sentence
    }

    /// - Parameters:
    ///   - code: `err_code`.
    ///   - status: `code`, like a status of HTTP.
    ///   - text: `description`.
    init(code: Int, status: Int, _ text: String) {
        let kind = JetStreamError.kind(code, status)
        let text = JetStreamError.bounded(text)
        let cause = "NATS JetStream answered: \(text.isEmpty ? "no description" : text) (\(code))"
        self.init(kind, code: code, "\(cause). \(JetStreamError.advice(kind))")
    }

    /// A status in the headers: 503 if no server received the request, others only for `directGet`.
    init(status: Int, _ text: String = "") {
        guard status != 503 else {
            self.init(
                .temporary, code: nil,
                "No NATS server with JetStream takes this request now; try again later. If this goes on, check that "
                    + "JetStream is enabled and its stream exists.")
            return
        }
        self.init(
            status == 429 ? .temporary : .other, code: nil,
            "NATS answered with the status \(status) \(JetStreamError.bounded(text)). See the server's log.")
    }

    static func malformed(_ what: String) -> JetStreamError {
        JetStreamError(
            .malformed, code: nil,
            "An answer of NATS JetStream cannot be read. \(what) Check that the server is NATS 2.11 or later.")
    }

    static func missing(_ name: String) -> JetStreamError { malformed("It has no valid '\(name)'.") }

    /// At most 256 bytes.
    private static func bounded(_ text: String) -> String { String(decoding: text.utf8.prefix(256), as: UTF8.self) }

    private static func kind(_ code: Int, _ status: Int) -> Kind {
        switch code {
        case 10059: .streamNotFound
        case 10037: .messageNotFound
        case 10065: .subjectsOverlap
        case 10058: .nameInUse
        case 10071: .wrongLastSequence
        case 10060: .wrongStream
        case 10109: .sealed
        case 10054, 10097: .tooLarge
        case 10023, 10028, 10047, 10077: .full
        case 10002, 10026, 10027, 10113, 10120, 10122: .accountLimit
        case 10035, 10039, 10076: .notEnabled
        case 10005, 10074: .replicas
        // 10158: the message's duplicate is being stored. 10164: another message with an expected sequence is.
        case 10004, 10007, 10008, 10009, 10158, 10163, 10164, 10167: .temporary
        default: status == 503 || status == 429 ? .temporary : .other
        }
    }

    private static func advice(_ kind: Kind) -> String {
        switch kind {
        case .streamNotFound: "Subscribe or publish again; the topic then begins again, empty."
        case .messageNotFound: "The message is no longer in the stream."
        case .subjectsOverlap: "Remove the other stream, or take these subjects off it."
        case .nameInUse: "Delete the other stream, or rename it."
        case .wrongLastSequence: "Another publisher was faster; publish again."
        case .wrongStream: "The topic's stream was replaced; subscribe and publish again."
        case .sealed: "The topic has ended; use another one."
        case .tooLarge: "Publish smaller messages, or raise max_payload of the NATS servers."
        case .full: "Delete messages or streams, or give the NATS servers more storage."
        case .accountLimit: "Raise the limits of the NATS account, or delete streams."
        case .notEnabled: "Enable JetStream on the NATS servers and for the account."
        case .replicas: "Add NATS servers to the cluster, or configure fewer replicas."
        case .temporary: "Try again later."
        case .malformed, .other: "See the log of the NATS server."
        }
    }
}
