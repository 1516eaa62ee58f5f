// PlainRequest: the parts of a request that plain HTTP needs, collected header by header as the transport reads them.

import Bytes

/// The head of a request over HTTP/2 or HTTP/1.1. Headers without a meaning here are not stored.
public struct PlainRequest: Sendable {
    public var method: String
    /// Path and query as sent, still percent-encoded.
    public var target: String
    /// `:authority` over HTTP/2; taken from Host if the transport provides none.
    public var authority: String?
    public private(set) var accept: String?
    public private(set) var lastEventID: String?
    public private(set) var contentType: String?
    public private(set) var contentEncoding: String?
    public private(set) var contentLength: UInt64?
    public private(set) var authorization: String?
    public private(set) var origin: String?
    /// Access-Control-Request-Method and -Headers, of a preflight.
    public private(set) var preflightMethod: String?
    public private(set) var preflightHeaders: String?
    /// Whether the client waits for `100 Continue` before it sends the body. Send that once `PlainProtocol.call` has
    /// accepted the head; otherwise send the refusal.
    public private(set) var expectsContinue = false
    /// Headers sent as `forebay-header-NAME: value`, without the prefix.
    public private(set) var messageHeaders: [PlainHeader] = []

    /// The prefix of message headers.
    public static let messageHeaderPrefix = "forebay-header-"

    /// The prefix of all paths of plain HTTP. Below it, a content type is a message's, including gRPC's own types.
    public static let root = Array("/v1/".utf8)

    /// Whether the target's path is below `root`.
    public var isUnderRoot: Bool { Target.withoutAuthority(target[...]).utf8.starts(with: PlainRequest.root) }

    /// The prefix of the paths for requesting credit.
    public static let subscriptions = Array("/v1/subscriptions/".utf8)
    public var isOfSubscription: Bool { target.utf8.starts(with: PlainRequest.subscriptions) }

    private let limits: PlainLimits
    private var kept = 0
    /// The first error in a header; `check` throws it.
    private var fault: Problem?

    public init(method: String, target: String, authority: String? = nil, limits: PlainLimits = PlainLimits()) {
        self.method = method
        self.target = target
        self.authority = authority
        self.limits = limits
    }

    /// Adds a header, with its name in any case. `PlainProtocol.call` reports what is wrong with it.
    public mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
        guard let header = Header(name) else { return }
        // Counted like a field of HTTP/2. RFC 9113, section 6.5.2.
        kept += name.count + value.count + 32
        guard kept <= limits.headers else {
            let sentence = "The request's headers have more than \(limits.headers) bytes; send fewer or shorter ones."
            fail(Problem(.headersTooLarge, sentence))
            return
        }
        guard let text = String(validating: Field.trim(value), as: UTF8.self) else {
            fail(Problem(.invalid, "The header \(String(decoding: name, as: UTF8.self)) is not UTF-8."))
            return
        }
        take(header, text)
    }

    /// Like `add` with bytes.
    public mutating func add(_ name: String, _ value: String) {
        Array(name.utf8).withUnsafeBytes { name in Array(value.utf8).withUnsafeBytes { add(name, $0) } }
    }

    /// - Throws: what was wrong with the headers.
    func check() throws(Problem) {
        if let fault { throw fault }
    }

    private mutating func take(_ header: Header, _ value: String) {
        switch header {
        // RFC 9113, section 8.3.1: `:authority` takes precedence.
        case .host: authority = authority ?? value
        // Lists may be split over several lines. RFC 9110, section 5.3.
        case .accept: accept = accept.map { $0 + ", " + value } ?? value
        case .preflightHeaders: preflightHeaders = preflightHeaders.map { $0 + ", " + value } ?? value
        case .contentEncoding: contentEncoding = contentEncoding.map { $0 + ", " + value } ?? value
        case .lastEventID: lastEventID = once(lastEventID, "Last-Event-ID", value)
        case .contentType: contentType = once(contentType, "Content-Type", value)
        case .authorization: authorization = once(authorization, "Authorization", value)
        case .origin: origin = once(origin, "Origin", value)
        case .preflightMethod: preflightMethod = once(preflightMethod, "Access-Control-Request-Method", value)
        case .contentLength: take(contentLength: value)
        case .expect:
            if value.lowercased() == "100-continue" {
                expectsContinue = true
            } else {
                fail(Problem(.expectationFailed, "Expect: \(value) is not supported; use only 100-continue."))
            }
        case .message(let name): take(messageHeader: name, value)
        }
    }

    private mutating func once(_ field: String?, _ name: String, _ value: String) -> String {
        if field != nil { fail(Problem(.invalid, "The header \(name) was sent twice; send it once.")) }
        return value
    }

    private mutating func take(contentLength value: String) {
        guard let length = Decimal.parse(value), contentLength == nil || contentLength == length else {
            fail(Problem(.invalid, "Content-Length: \(value) is invalid; send the body's length in bytes."))
            return
        }
        contentLength = length
    }

    private mutating func take(messageHeader name: String, _ value: String) {
        let prefix = PlainRequest.messageHeaderPrefix
        if name.isEmpty {
            fail(Problem(.invalid, "The header \(prefix) needs a name after its last hyphen."))
        } else if messageHeaders.contains(where: { $0.name == name }) {
            fail(Problem(.invalid, "The header \(prefix)\(name) was sent twice; send it once."))
        } else if messageHeaders.count >= limits.messageHeaders {
            fail(Problem(.headersTooLarge, "The message has more than \(limits.messageHeaders) headers; send fewer."))
        } else {
            messageHeaders.append(PlainHeader(name, value))
        }
    }

    private mutating func fail(_ problem: Problem) { fault = fault ?? problem }
}

/// The headers with a meaning for plain HTTP.
private enum Header {
    case host, accept, lastEventID, contentType, contentEncoding, contentLength, authorization
    case origin, preflightMethod, preflightHeaders, expect
    case message(String)

    /// Most headers of most requests have no meaning here; their length rules them out first.
    init?(_ name: UnsafeRawBufferPointer) {
        switch name.count {
        case 4 where Header.matches(name, "host"): self = .host
        case 6 where Header.matches(name, "accept"): self = .accept
        case 6 where Header.matches(name, "origin"): self = .origin
        case 6 where Header.matches(name, "expect"): self = .expect
        case 12 where Header.matches(name, "content-type"): self = .contentType
        case 13 where Header.matches(name, "last-event-id"): self = .lastEventID
        case 13 where Header.matches(name, "authorization"): self = .authorization
        case 14 where Header.matches(name, "content-length"): self = .contentLength
        case 16 where Header.matches(name, "content-encoding"): self = .contentEncoding
        case 29 where Header.matches(name, "access-control-request-method"): self = .preflightMethod
        case 30 where Header.matches(name, "access-control-request-headers"): self = .preflightHeaders
        default:
            let prefix: StaticString = "forebay-header-"
            let length = prefix.utf8CodeUnitCount
            guard name.count >= length, Header.matches(name.slice(0..<length), prefix) else { return nil }
            self = .message(String(decoding: name.slice(length..<name.count), as: UTF8.self).lowercased())
        }
    }

    private static func matches(_ bytes: UnsafeRawBufferPointer, _ name: StaticString) -> Bool {
        for index in 0..<bytes.count {
            let byte = bytes[index]
            let lower = byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte
            if lower != name.utf8Start[index] { return false }
        }
        return true
    }
}
