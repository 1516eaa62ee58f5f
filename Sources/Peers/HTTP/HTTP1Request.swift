// HTTP1Request: the head of an HTTP/1.1 request, added field by field by the driver, and whether its end is certain.
// RFC 9112.
//
// If a server and a proxy in front of it disagree about where a request ends, a part of its body can be taken for
// another client's request (request smuggling). So a request that can be interpreted in two ways is refused, and the
// connection ends after the refusal.

import Bytes
import HTTP2

/// The head of a request.
public struct HTTP1Request {
    private let method: String
    private let target: String
    let isHTTP10: Bool
    private var names = 0
    private var bytes = 0
    private var hosts = 0
    private var codings = 0
    private var lengths = 0
    private var isGRPC = false
    private var fault: Problem?
    public private(set) var plain: PlainRequest

    /// - Parameters:
    ///   - target: as received, with percent-encoding; path and query, or an absolute URI.
    ///   - version: "HTTP/1.1".
    ///   - limits: the limits of the broker that receives the request.
    public init(method: String, target: String, version: String, limits: Limits) {
        self.method = method
        self.target = target
        isHTTP10 = version == "HTTP/1.0"
        // RFC 9112, 3.2.2: the host of an absolute URI takes precedence over Host.
        let authority = HTTP1Request.authority(of: target)
        plain = PlainRequest(method: method, target: target, authority: authority, limits: limits.ofPlain)
        most = limits.ofHTTP.maxHeaderList
    }

    /// The most bytes of names and values, counted as for HTTP/2.
    private let most: Int

    /// Adds a field; its name may be in any case.
    public mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
        bytes += name.count + value.count + 32
        names += 1
        guard bytes <= most else {
            return fail(
                Problem(
                    .headersTooLarge, "The request's headers have more than \(most) bytes; send fewer or shorter ones.")
            )
        }
        guard HTTP1Request.isToken(name), HTTP1Request.isText(value) else {
            return fail(
                Problem(.invalid, word: .protocol, "A header has an invalid name or value; see RFC 9110, section 5."))
        }
        switch name.count {
        case 4 where HTTP1Request.matches(name, "host"): hosts += 1
        case 14 where HTTP1Request.matches(name, "content-length"):
            lengths += 1
            if !HTTP1Request.isLength(value) { hasNoLength() }
        case 17 where HTTP1Request.matches(name, "transfer-encoding"):
            codings += 1
            if !HTTP1Request.matches(value, "chunked") {
                fail(
                    Problem(
                        .invalid, word: .unsupported,
                        "The request's Transfer-Encoding is not supported; use only chunked."))
            }
        case 12 where HTTP1Request.matches(name, "content-type"):
            isGRPC = GRPCCall.isMeant([("content-type", String(decoding: value, as: UTF8.self))])
        default: break
        }
        plain.add(name, value)
    }

    /// Records a fault of the head: a line ends with only a line feed, continues in the next one, or contains a NUL; or
    /// the request line does not have exactly one blank on each side of the target.
    public mutating func isUnclear() {
        fail(
            Problem(
                .invalid, word: .protocol,
                "The request head is malformed; end each line with CR LF, send no NUL and no folded lines, and put "
                    + "single spaces around the target."))
    }

    /// Records that a Content-Length is invalid or too large.
    public mutating func hasNoLength() {
        fail(
            Problem(.invalid, word: .protocol, "Content-Length is invalid; send a decimal number of bytes below 2^64."))
    }

    /// Whether a body follows, which may be empty.
    public var hasBody: Bool { codings > 0 || lengths > 0 }

    /// What is wrong with the request, regardless of what it asks for.
    public var problem: Problem? {
        if let fault { return fault }
        if hosts > 1 || (hosts == 0 && !isHTTP10) {
            return Problem(
                .invalid, word: .protocol, "The request has \(counted(hosts, "Host header")); send exactly one.")
        }
        if hasTwoEnds {
            return Problem(
                .invalid, word: .protocol,
                "The request has both Content-Length and Transfer-Encoding; send only one of them."
            )
        }
        if isGRPC, !plain.isUnderRoot {
            return Problem(
                .httpVersion, "gRPC requires HTTP/2; connect with HTTP/2 prior knowledge, as gRPC clients do.")
        }
        return nil
    }

    /// Whether it is uncertain where the request ends.
    public var isAmbiguous: Bool { fault != nil || hasTwoEnds }

    private var hasTwoEnds: Bool { codings + lengths > 1 || (codings > 0 && isHTTP10) }

    /// Approximate bytes of the head.
    var size: Int { method.utf8.count + target.utf8.count + 12 + bytes - 28 * names }

    private mutating func fail(_ problem: Problem) { fault = fault ?? problem }

    private static func authority(of target: String) -> String? {
        guard let scheme = target.firstRange(of: "://"), !target.hasPrefix("/") else { return nil }
        let rest = target[scheme.upperBound...]
        return String(rest.prefix { $0 != "/" && $0 != "?" })
    }

    private static func matches(_ bytes: UnsafeRawBufferPointer, _ word: StaticString) -> Bool {
        guard bytes.count == word.utf8CodeUnitCount else { return false }
        for index in 0..<bytes.count {
            let byte = bytes[index]
            if (byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte) != word.utf8Start[index] { return false }
        }
        return true
    }

    /// Whether the bytes are a valid Content-Length (RFC 9110, 8.6).
    private static func isLength(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var length: UInt64? = bytes.isEmpty ? nil : 0
        for byte in bytes {
            guard let sum = length, byte >= 0x30, byte <= 0x39 else { return false }
            let (tens, isOver) = sum.multipliedReportingOverflow(by: 10)
            let (next, isOverToo) = tens.addingReportingOverflow(UInt64(byte - 0x30))
            length = isOver || isOverToo ? nil : next
        }
        return length != nil
    }

    /// Whether the bytes are a token (RFC 9110, 5.6.2).
    private static func isToken(_ bytes: UnsafeRawBufferPointer) -> Bool {
        !bytes.isEmpty
            && bytes.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: "!#$%&'*+.^`|~".utf8.contains(byte)
                }
            }
    }

    /// Whether the bytes are valid in a header's value: no control characters except tab (RFC 9110, 5.5).
    private static func isText(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }
}
