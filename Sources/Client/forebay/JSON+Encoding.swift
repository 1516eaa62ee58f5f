// JSON+Encoding: JSON as text.

import Bytes

extension JSON {
    /// The JSON text as one line.
    var encoded: String {
        switch self {
        case .null: "null"
        case .bool(let value): "\(value)"
        case .number(let text): text
        case .string(let text): JSONText.quoted(text)
        case .array(let elements): "[" + elements.map(\.encoded).joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.map { JSONText.quoted($0.key) + ":" + $0.value.encoded }.joined(separator: ",") + "}"
        }
    }

    /// A whole number.
    static func whole(_ value: some BinaryInteger) -> JSON { .number("\(value)") }
}
