// The client's JSON parser for a broker's responses, compared with Jansson. JSON.swift in this folder is the client's
// own file, because one program cannot be linked into another.

import Core
import JSONParsing

func fuzzJSON(_ bytes: UnsafeRawBufferPointer) {
    withCopy(bytes) { bytes in
        let other = JSONDocument(bytes)
        guard let value = JSON(bytes) else {
            // Jansson accepts deeper nesting.
            let isDeep = bytes.count { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "{") } > JSON.depthLimit
            return mustHold(other == nil || isDeep, "\(bytes.asText) is JSON")
        }
        mustHold(depth(value) <= JSON.depthLimit + 1, "\(bytes.asText) is too deep")
        let text = written(value)
        mustHold(
            JSON(text) == value, "\(bytes.asText) is written as \(text), and read as \(String(describing: JSON(text)))")
        guard let other, case .object(let members) = value else { return }
        for (key, member) in members where !key.utf8.contains(0) && !key.contains("\u{FFFD}") {
            guard case .string(let text) = member, !text.contains("\u{FFFD}") else { continue }
            mustHold(other.root[key]?.string == text, "\(key) is \(text), or \(other.root[key]?.string ?? "nothing")")
        }
    }
}

private func depth(_ value: JSON) -> Int {
    switch value {
    case .array(let elements): 1 + (elements.map(depth).max() ?? 0)
    case .object(let members): 1 + (members.map { depth($0.value) }.max() ?? 0)
    default: 1
    }
}

private func written(_ value: JSON) -> String {
    switch value {
    case .null: return "null"
    case .bool(let value): return "\(value)"
    case .number(let text): return text
    case .string(let text): return written(text)
    case .array(let elements): return "[\(elements.map(written).joined(separator: ","))]"
    case .object(let members):
        return "{\(members.map { "\(written($0.key)):\(written($0.value))" }.joined(separator: ","))}"
    }
}

/// Everything but letters and digits as UTF-16 escapes.
private func written(_ text: String) -> String {
    let units = text.utf16.map { unit -> String in
        let isPlain = unit < 128 && (Unicode.Scalar(unit)?.properties.isAlphabetic ?? false)
        let hex = String(unit, radix: 16)
        return isPlain ? String(UnicodeScalar(UInt8(unit))) : "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
    }
    return "\"\(units.joined())\""
}
