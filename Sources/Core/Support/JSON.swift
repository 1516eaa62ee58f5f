// JSON, as the control calls and the broker's own topics write it: flat objects, one at a time.

/// Writes one JSON object. The order of its members is that of the calls.
public struct JSONObject {
    private var text = "{"

    public init() {}

    public mutating func add(_ key: String, _ value: String) {
        name(key)
        JSONObject.quote(value, into: &text)
    }

    public mutating func add(_ key: String, _ value: some BinaryInteger) {
        name(key)
        text += String(value)
    }

    public mutating func add(_ key: String, _ value: Bool) {
        name(key)
        text += value ? "true" : "false"
    }

    /// A value that is JSON already.
    public mutating func add(_ key: String, json: String) {
        name(key)
        text += json
    }

    public func finished() -> String { text + "}" }

    private mutating func name(_ key: String) {
        if text.utf8.count > 1 { text += "," }
        text += "\"\(key)\":"
    }

    /// RFC 8259, section 7: quotation mark, reverse solidus and control characters are escaped.
    private static func quote(_ value: String, into text: inout String) {
        text += "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case _ where scalar.value < 0x20 || scalar.value == 0x7F:
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}
