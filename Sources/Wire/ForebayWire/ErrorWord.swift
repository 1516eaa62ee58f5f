// ErrorWord: the words that error texts begin with, the same on every protocol. Protocol/errors.md describes each.

/// The kind of an error, for programs. Every error text of the broker is one of these words, a colon, a space, and a
/// sentence for a person.
public enum ErrorWord: Int, CaseIterable, Sendable {
    /// A bad name, option, value or demand.
    case invalid
    /// A version, feature, method or encoding that this broker does not have.
    case unsupported
    /// The framing, or a rule of the connection's protocol, is broken.
    case `protocol`
    /// Credentials are missing, wrong or no longer valid.
    case unauthenticated
    /// A permission is missing, or was withdrawn.
    case forbidden
    /// The topic, subscription, connection or session does not exist.
    case notFound
    /// A limit is reached.
    case limit
    /// A message, or its metadata, is larger than allowed.
    case tooLarge
    /// A publisher sent more messages than it was granted.
    case credit
    /// A publish found no room in its topic in time.
    case blocked
    /// Something did not arrive, or was not completed, in time.
    case timeout
    /// The topic has ended and takes no more messages.
    case ended
    /// Requested messages are no longer available.
    case gap
    /// The topic failed or was deleted, which ends its subscriptions.
    case topicFailed
    /// The subscription's buffer, or the topic's log, was full.
    case overflow
    /// The broker is shutting down.
    case draining
    /// The broker cannot serve the request now, for no fault of the client.
    case unavailable
    /// An operator ended the subscription or the connection.
    case closedByOperator
    /// The store cannot take or deliver messages. Reserved for durable topics.
    case store
    /// A numbered publish does not continue its publisher's sequence.
    case publisher

    /// The word itself.
    public var text: String {
        switch self {
        case .invalid: "invalid"
        case .unsupported: "unsupported"
        case .protocol: "protocol"
        case .unauthenticated: "unauthenticated"
        case .forbidden: "forbidden"
        case .notFound: "not-found"
        case .limit: "limit"
        case .tooLarge: "too-large"
        case .credit: "credit"
        case .blocked: "blocked"
        case .timeout: "timeout"
        case .ended: "ended"
        case .gap: "gap"
        case .topicFailed: "topic failed"
        case .overflow: "overflow"
        case .draining: "draining"
        case .unavailable: "unavailable"
        case .closedByOperator: "closed-by-operator"
        case .store: "store"
        case .publisher: "publisher"
        }
    }

    /// The word and a sentence, as clients receive them.
    public func text(_ sentence: String) -> String { "\(text): \(sentence)" }

    /// The word that an error's text begins with; nil if it begins with none.
    public init?(beginning message: some StringProtocol) {
        guard let colon = message.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let word = message[..<colon]
        guard let known = Self.allCases.first(where: { $0.text == word }) else { return nil }
        self = known
    }
}
