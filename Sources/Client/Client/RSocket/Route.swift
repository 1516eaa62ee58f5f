// Route: a topic or control call with its options, as the tags of a routing metadata entry.
//
// The first tag is `TOPIC?option=value&…`. A tag holds 255 bytes, so options that do not fit follow in separate tags,
// as `option=value`. Values are percent-encoded.

/// The target of a request.
public struct Route: Equatable, Sendable {
    /// The name of a topic, or of a `$SYS.` call.
    public var name: String
    /// Options in the order sent.
    public var options: [(name: String, value: String)]

    /// Maximum bytes of one routing tag.
    public static let tagLimit = 255

    public init(_ name: String, options: [(name: String, value: String)] = []) {
        self.name = name
        self.options = options
    }

    public static func == (a: Route, b: Route) -> Bool {
        a.name == b.name && a.options.elementsEqual(b.options, by: ==)
    }

    /// The tags to send, the route first; nil if the name, or one option, is longer than a tag can hold.
    public var tags: [String]? {
        var first = Self.encode(name, keeping: "$.")
        guard first.utf8.count <= Self.tagLimit, !first.isEmpty else { return nil }
        var further: [String] = []
        var separator = "?"
        for option in options {
            let pair = option.name + "=" + Self.encode(option.value)
            guard pair.utf8.count <= Self.tagLimit else { return nil }
            // Options keep their order: after the first that does not fit, all others follow it.
            if further.isEmpty, first.utf8.count + 1 + pair.utf8.count <= Self.tagLimit {
                first += separator + pair
                separator = "&"
            } else {
                further.append(pair)
            }
        }
        return [first] + further
    }

    /// The options as `option=value&…`, percent-encoded.
    var query: String { options.map { $0.name + "=" + Self.encode($0.value) }.joined(separator: "&") }

    /// Percent-encodes everything except letters, digits, `-`, `_`, `.`, `~` and the characters of `keeping`.
    public static func encode(_ text: String, keeping: String = "") -> String {
        let hex = Array("0123456789ABCDEF".utf8)
        let kept = Array(keeping.utf8)
        var out: [UInt8] = []
        out.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
                UInt8(ascii: "~"):
                out.append(byte)
            case let byte where kept.contains(byte):
                out.append(byte)
            default:
                out += [UInt8(ascii: "%"), hex[Int(byte >> 4)], hex[Int(byte & 15)]]
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
