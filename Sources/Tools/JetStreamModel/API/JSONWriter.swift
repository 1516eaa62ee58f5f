// JSONWriter: JSON as Go's encoder writes it, whose escapes differ from those of `JSONText`.

/// Writes an object, member by member.
struct JSONWriter {
    private var text = ""

    /// The object.
    var object: String { "{\(text)}" }

    mutating func put(_ name: String, raw value: String) {
        if !text.isEmpty { text += "," }
        text += "\(JSONWriter.quoted(name)):\(value)"
    }

    mutating func put(_ name: String, _ value: String) { put(name, raw: JSONWriter.quoted(value)) }
    mutating func put(_ name: String, _ value: Bool) { put(name, raw: "\(value)") }
    mutating func put(_ name: String, _ value: some BinaryInteger) { put(name, raw: "\(value)") }

    /// Writes null for none, as Go does for a nil slice.
    mutating func put(_ name: String, _ values: [String]) {
        put(name, raw: values.isEmpty ? "null" : "[\(values.map(JSONWriter.quoted).joined(separator: ","))]")
    }

    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case "\u{8}": result += "\\b"
            case "\u{c}": result += "\\f"
            case "<", ">", "&", "\u{2028}", "\u{2029}", "\u{0}"..."\u{1f}":
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
