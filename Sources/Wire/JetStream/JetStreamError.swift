// JetStreamError: why JetStream did not do what was asked.

import Bytes
import ForebayWire
import JSONParsing
import NATS

public struct JetStreamError: Error, Equatable, Sendable, CustomStringConvertible {
    /// What callers tell apart. The numbers are those of nats-server, server/errors.json.
    public enum Kind: Equatable, Sendable {
        case streamNotFound
        case messageNotFound
        /// Another stream has the subjects.
        case subjectsOverlap
        /// The subject's last message is another one than expected.
        case wrongLastSequence
        /// The message is meant for another stream.
        case wrongStream
        case sealed
        case tooLarge
        /// The stream, the server or the account has no room.
        case full
        /// The account may not have more.
        case accountLimit
        case notEnabled
        /// There are not enough servers for the replicas.
        case replicas
        /// No leader, no responder, or the same message is being stored: repeat the request.
        case unavailable
        case unreadable
        case other

        fileprivate init(_ number: Int) {
            switch number {
            case 10059: self = .streamNotFound
            case 10037: self = .messageNotFound
            case 10065: self = .subjectsOverlap
            case 10071, 10164: self = .wrongLastSequence
            case 10060: self = .wrongStream
            case 10109: self = .sealed
            case 10054: self = .tooLarge
            case 10023, 10047, 10077, 10122: self = .full
            case 10002, 10026, 10027, 10028: self = .accountLimit
            case 10039, 10076: self = .notEnabled
            case 10005, 10074: self = .replicas
            case 10008, 10009, 10158: self = .unavailable
            default: self = .other
            }
        }
    }

    public let kind: Kind
    /// The server's number; nil if the error is not its.
    public let number: Int?
    /// What went wrong, and what to do.
    public let sentence: String

    /// The longest text of a server that is passed on.
    private static let longestText = 200

    init(_ kind: Kind, number: Int? = nil, _ sentence: String) {
        self.kind = kind
        self.number = number
        self.sentence = sentence
    }

    static func unreadable(_ what: String) -> JetStreamError {
        JetStreamError(.unreadable, "The answer of NATS JetStream does not contain \(what).")
    }

    /// Whether it may succeed if repeated.
    public var isTemporary: Bool { kind == .unavailable }

    /// The word that the error's text begins with.
    public var word: ErrorWord {
        switch kind {
        case .tooLarge: .tooLarge
        case .full, .accountLimit, .replicas: .limit
        case .streamNotFound, .messageNotFound: .notFound
        case .sealed: .ended
        case .subjectsOverlap, .wrongLastSequence, .wrongStream, .notEnabled, .unavailable, .unreadable, .other:
            .unavailable
        }
    }

    public var description: String { word.text(sentence) }

    /// The members of an answer.
    /// - Throws: the error that it contains, or that it is not an answer.
    static func check(_ answer: NATSMessage) throws(JetStreamError) -> JSONValue {
        if let block = answer.headers, let headers = try? NATSHeaders(block), headers.status == 503 {
            throw JetStreamError(.unavailable, "NATS JetStream does not answer; try again later.")
        }
        guard let root = JSONDocument(answer.payload)?.root else { throw .unreadable("a JSON object") }
        guard let error = root["error"] else { return root }
        let number = error["err_code"]?.integer
        let text = error["description"]?.string ?? "error \(number ?? 0)"
        let safe = String(
            String.UnicodeScalarView(text.unicodeScalars.filter { !TextScan.isControl($0.value) }.prefix(longestText)))
        let kind = Kind(number ?? 0)
        throw JetStreamError(kind, number: number, "NATS JetStream refuses: \(safe)\(kind.advice).")
    }
}

extension JetStreamError.Kind {
    /// What a person can do.
    fileprivate var advice: String {
        switch self {
        case .full: "; delete streams, or give the servers more storage"
        case .accountLimit: "; raise the limits of the NATS account"
        case .notEnabled: "; enable JetStream on the servers and for the account"
        case .replicas: "; start more servers, or set shared-replicas to fewer"
        case .tooLarge: "; publish smaller messages, or raise max_payload on the servers"
        case .streamNotFound, .messageNotFound, .subjectsOverlap, .wrongLastSequence, .wrongStream, .sealed,
            .unavailable, .unreadable, .other:
            ""
        }
    }
}
