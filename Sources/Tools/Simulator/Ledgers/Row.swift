// Row: a JSON object in the subset that the broker writes, with strings, literals and lists of strings: a row of a
// list, or a response over HTTP.

struct Row: CustomStringConvertible {
    private var fields: [String: String] = [:]
    private let text: String

    /// Parses a row; nil if the bytes are not such an object.
    init?(_ bytes: [UInt8]) {
        text = String(decoding: bytes, as: UTF8.self)
        var rest = bytes[...]
        if rest.last == UInt8(ascii: "\n") { rest.removeLast() }
        guard rest.popFirst() == UInt8(ascii: "{"), rest.popLast() == UInt8(ascii: "}") else { return nil }
        while !rest.isEmpty {
            guard let name = Row.string(&rest), rest.popFirst() == UInt8(ascii: ":") else { return nil }
            guard let value = Row.value(&rest) else { return nil }
            fields[name] = value
            if !rest.isEmpty, rest.popFirst() != UInt8(ascii: ",") { return nil }
        }
    }

    private static func value(_ rest: inout ArraySlice<UInt8>) -> String? {
        switch rest.first {
        case UInt8(ascii: "\""): string(&rest)
        case UInt8(ascii: "["): list(&rest)
        default: word(&rest)
        }
    }

    /// The strings of a list, joined by commas.
    private static func list(_ rest: inout ArraySlice<UInt8>) -> String? {
        rest.removeFirst()
        var texts: [String] = []
        while rest.first != UInt8(ascii: "]") {
            if !texts.isEmpty, rest.popFirst() != UInt8(ascii: ",") { return nil }
            guard let text = string(&rest) else { return nil }
            texts.append(text)
        }
        rest.removeFirst()
        return texts.joined(separator: ",")
    }

    private static func string(_ rest: inout ArraySlice<UInt8>) -> String? {
        guard rest.popFirst() == UInt8(ascii: "\"") else { return nil }
        var value: [UInt8] = []
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\"") { return String(decoding: value, as: UTF8.self) }
            value.append(byte == UInt8(ascii: "\\") ? rest.popFirst() ?? 0 : byte)
        }
        return nil
    }

    private static func word(_ rest: inout ArraySlice<UInt8>) -> String? {
        let word = rest.prefix { $0 != UInt8(ascii: ",") }
        rest.removeFirst(word.count)
        return word.isEmpty ? nil : String(decoding: word, as: UTF8.self)
    }

    subscript(name: String) -> String? { fields[name] }
    func number(_ name: String) -> UInt64? { fields[name].flatMap { UInt64($0) } }
    var description: String { text }

    /// The first difference from this row; nil if there is none.
    func difference(from expected: [(name: String, value: String)]) -> String? {
        for (name, value) in expected where fields[name] != value {
            return "'\(name)' is \(fields[name] ?? "missing"), but \(value) is correct: \(text)"
        }
        return nil
    }
}
