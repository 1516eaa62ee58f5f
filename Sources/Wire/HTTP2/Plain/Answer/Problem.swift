// Problem: why a request is refused, as application/problem+json. RFC 9457.

import Bytes
import ForebayWire

/// A refusal; there is a kind for every error status that plain HTTP uses.
public struct Problem: Error, Equatable, Sendable {
    /// The kind of refusal. The raw value is the end of its type, `/problems/…`.
    public enum Kind: String, Sendable, CaseIterable {
        case invalid
        case unauthenticated
        case forbidden
        case foreignOrigin = "foreign-origin"
        case foreignHost = "foreign-host"
        case notFound = "not-found"
        case methodNotAllowed = "method-not-allowed"
        case notAcceptable = "not-acceptable"
        case timeout
        case ended
        case gap
        case publisher
        case tooLarge = "too-large"
        case targetTooLong = "target-too-long"
        case expectationFailed = "expectation-failed"
        case limit
        case headersTooLarge = "headers-too-large"
        case unavailable
        case httpVersion = "http-version"
        case draining
        case blocked
        /// The store does not take messages.
        case store
        /// The connection exceeds the limit.
        case tooManyConnections = "too-many-connections"
        /// A part of the broker does not respond.
        case busy

        public var status: Int {
            switch self {
            case .invalid: 400
            case .unauthenticated: 401
            case .forbidden, .foreignOrigin: 403
            case .foreignHost: 421
            case .notFound: 404
            case .methodNotAllowed: 405
            case .notAcceptable: 406
            case .timeout: 408
            case .ended, .gap, .publisher: 409
            case .tooLarge: 413
            case .targetTooLong: 414
            case .expectationFailed: 417
            case .limit: 429
            case .headersTooLarge: 431
            case .draining, .blocked, .store, .busy, .tooManyConnections, .unavailable: 503
            case .httpVersion: 505
            }
        }

        /// The title, the same for every refusal of this kind.
        public var title: String {
            switch self {
            case .invalid: "Invalid request"
            case .unauthenticated: "Credentials required"
            case .forbidden: "Not allowed"
            case .foreignOrigin: "Not allowed from this origin"
            case .foreignHost: "Unknown host name"
            case .notFound: "Not found"
            case .methodNotAllowed: "Method not allowed"
            case .notAcceptable: "Not acceptable"
            case .timeout: "The request took too long"
            case .tooManyConnections: "Too many connections"
            case .ended: "The topic has ended"
            case .gap: "Messages are missing"
            case .publisher: "Unexpected number"
            case .tooLarge: "The message is too large"
            case .targetTooLong: "The request target is too long"
            case .expectationFailed: "Unknown expectation"
            case .limit: "Limit reached"
            case .headersTooLarge: "The headers are too large"
            case .httpVersion: "HTTP version not supported"
            case .draining: "The broker is shutting down"
            case .blocked: "The topic has no room"
            case .store: "The message is not on disk"
            case .busy: "The broker is busy"
            case .unavailable: "Unavailable"
            }
        }

        /// The word of errors of this kind that say nothing else.
        public var word: ErrorWord {
            switch self {
            case .invalid: .invalid
            case .methodNotAllowed, .notAcceptable, .expectationFailed, .httpVersion: .unsupported
            case .unauthenticated: .unauthenticated
            case .forbidden, .foreignOrigin, .foreignHost: .forbidden
            case .notFound: .notFound
            case .timeout: .timeout
            case .ended: .ended
            case .gap: .gap
            case .publisher: .publisher
            case .tooLarge, .targetTooLong, .headersTooLarge: .tooLarge
            case .limit, .tooManyConnections: .limit
            case .draining: .draining
            case .blocked: .blocked
            case .store: .store
            case .unavailable, .busy: .unavailable
            }
        }

        /// Seconds after which to retry, if retrying may help.
        var retryAfter: Int? {
            switch self {
            case .limit, .tooManyConnections, .draining, .blocked, .store, .busy, .unavailable: 1
            default: nil
            }
        }
    }

    public var kind: Kind
    /// What the detail begins with.
    public var word: ErrorWord
    /// A sentence that says what to do.
    public var sentence: String
    /// The path of the affected resource; nil if it is the request's own.
    public var instance: String?
    /// Seconds, for `Retry-After`.
    public var retryAfter: Int?
    /// The value of `Allow`, with 405.
    public var allow: String?

    public init(
        _ kind: Kind, word: ErrorWord? = nil, _ sentence: String, instance: String? = nil, retryAfter: Int? = nil,
        allow: String? = nil
    ) {
        self.kind = kind
        self.word = word ?? kind.word
        self.sentence = sentence
        self.instance = instance
        self.retryAfter = retryAfter ?? kind.retryAfter
        self.allow = allow
    }

    public var status: Int { kind.status }
    /// The text that the client receives.
    public var detail: String { word.text(sentence) }
    public static let mime = "application/problem+json"

    /// Appends the problem as a JSON object.
    public func append(into out: inout ByteBuffer) {
        out.append("{\"type\":\"/problems/\(kind.rawValue)\",\"title\":")
        JSONText.append(kind.title, to: &out)
        out.append(",\"status\":\(status),\"detail\":")
        JSONText.append(detail, to: &out)
        if let instance {
            out.append(",\"instance\":")
            JSONText.append(instance, to: &out)
        }
        out.append("}\n")
    }

    /// The refusal's headers, except its content type.
    public var headers: [PlainHeader] {
        var headers: [PlainHeader] = []
        if let allow { headers.append(PlainHeader("allow", allow)) }
        if let retryAfter { headers.append(PlainHeader("retry-after", String(retryAfter))) }
        if kind == .unauthenticated {
            headers.append(PlainHeader("www-authenticate", "Basic realm=\"forebay\", charset=\"UTF-8\""))
            headers.append(PlainHeader("www-authenticate", "Bearer realm=\"forebay\""))
        }
        return headers
    }
}
