// Target: a request's path in decoded segments and its query as a list of options. RFC 3986, RFC 9112 section 3.2.
//
// Options follow the rules of the broker's routes: each has a value, none occurs twice, and `+` is a plus sign.

import Bytes

/// One `name=value` of a query, percent-decoded.
public struct QueryOption: Equatable, Sendable {
    public var name: String
    public var value: String

    public init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// The path and the query of a request, as sent.
public struct Target {
    /// The path without the query; begins with `/`, or is `*`.
    public let path: Substring
    private let query: Substring?

    /// - Parameter text: in origin form, in absolute form (`http://host/path`), or `*`.
    public init(_ text: String, limit: Int) throws(Problem) {
        guard text.utf8.count <= limit else {
            throw Problem(
                .targetTooLong,
                "The request target has \(text.utf8.count) bytes; at most \(limit) are allowed.")
        }
        var bytes = text
        guard bytes.withUTF8({ $0.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") } }) else {
            throw Problem(
                .invalid,
                "The request target has a space, a '#' or a non-ASCII byte; percent-encode it.")
        }
        let relative = Target.withoutAuthority(text[...])
        // Here and below, bytes are compared: searching by character takes several times as long.
        if let mark = relative.utf8.firstIndex(of: UInt8(ascii: "?")) {
            path = relative[..<mark]
            query = Substring(relative.utf8[mark...].dropFirst())
        } else {
            path = relative
            query = nil
        }
        guard path == "*" || path.utf8.first == UInt8(ascii: "/") else {
            throw Problem(.invalid, "The request target is not a path; begin it with '/'.")
        }
    }

    /// The topic of a target `/v1/topics/{topic}/messages` that has no query and needs no decoding; nil for any other
    /// target, which may still name a topic.
    static func plainTopic(_ target: String) -> String? {
        let head: StaticString = "/v1/topics/"
        let tail: StaticString = "/messages"
        var target = target
        return target.withUTF8 { bytes in
            let end = bytes.count - tail.utf8CodeUnitCount
            let start = head.utf8CodeUnitCount
            guard start < end, Target.stands(head, in: bytes, at: 0), Target.stands(tail, in: bytes, at: end) else {
                return nil
            }
            let topic = UnsafeBufferPointer(rebasing: bytes[start..<end])
            for byte in topic {
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    continue
                default: return nil
                }
            }
            return String(decoding: topic, as: UTF8.self)
        }
    }

    private static func stands(_ text: StaticString, in bytes: UnsafeBufferPointer<UInt8>, at start: Int) -> Bool {
        for index in 0..<text.utf8CodeUnitCount where bytes[start + index] != text.utf8Start[index] { return false }
        return true
    }

    /// The path's segments, each percent-decoded separately, so that an encoded `/` does not separate.
    public func segments() throws(Problem) -> [String] {
        var segments: [String] = []
        segments.reserveCapacity(4)
        for part in path.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            segments.append(try Target.decode(Substring(part)))
        }
        return segments
    }

    /// The query's options, in order.
    public func options() throws(Problem) -> [QueryOption] {
        var options: [QueryOption] = []
        guard let query else { return options }
        for pair in query.split(separator: "&", omittingEmptySubsequences: true) {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = try Target.decode(parts[0])
            guard parts.count == 2 else {
                throw Problem(.invalid, "The option '\(name)' has no value; write \(name)=value.")
            }
            guard !options.contains(where: { $0.name == name }) else {
                throw Problem(.invalid, "The option '\(name)' is given twice; give it once.")
            }
            guard options.count < PlainLimits.options else {
                throw Problem(.invalid, "The query has more than \(PlainLimits.options) options.")
            }
            options.append(QueryOption(name, try Target.decode(parts[1])))
        }
        return options
    }

    /// RFC 9112, section 3.2.2: a server must accept the absolute form too.
    static func withoutAuthority(_ text: Substring) -> Substring {
        // Nearly all targets are just paths.
        guard text.utf8.first != UInt8(ascii: "/") else { return text }
        for scheme in ["http://", "https://"] where text.prefix(scheme.count).lowercased() == scheme {
            let rest = text.dropFirst(scheme.count)
            guard let end = rest.firstIndex(where: { $0 == "/" || $0 == "?" }) else { return "/" }
            return rest[end] == "/" ? rest[end...] : "/" + rest[end...]
        }
        return text
    }

    private static func decode(_ text: Substring) throws(Problem) -> String {
        do throws(PercentFault) {
            return try text.percentDecoded()
        } catch {
            throw Problem(.invalid, error.description)
        }
    }
}

/// Parses unsigned whole numbers, the only ones in plain HTTP's texts.
enum Decimal {
    /// Only digits, within range; nil otherwise.
    static func parse(_ text: some StringProtocol) -> UInt64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return UInt64(text)
    }
}
