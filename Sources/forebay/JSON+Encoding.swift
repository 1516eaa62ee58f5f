// JSON as text.

import Bytes

extension JSON {
    /// As one line.
    var encoded: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .number(let text): text
        case .string(let text): JSON.quoted(text)
        case .array(let elements): "[" + elements.map(\.encoded).joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.map { JSON.quoted($0.key) + ":" + $0.value.encoded }.joined(separator: ",") + "}"
        }
    }

    private static func quoted(_ text: String) -> String {
        var bytes = ByteBuffer()
        SafeText.appendJSON(text, to: &bytes)
        return String(decoding: bytes.readable, as: UTF8.self)
    }

    /// A whole number.
    static func whole(_ value: some BinaryInteger) -> JSON { .number("\(value)") }
}
