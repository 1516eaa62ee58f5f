// JSON: enough of RFC 8259 to read the broker's objects. Foundation's decoder would triple the startup time.

/// A JSON value. Numbers keep their text, so that 64-bit values stay exact.
enum JSON: Equatable, Sendable {
    case null
    case bool(Bool)
    case number(String)
    case string(String)
    case array([JSON])
    case object([(key: String, value: JSON)])

    /// How deep arrays and objects may be nested.
    static let depthLimit = 32

    /// The value of `bytes`; nil if they are not exactly one JSON value.
    init?(_ bytes: UnsafeRawBufferPointer) {
        var parser = JSONParser(bytes: bytes)
        guard let value = parser.document() else { return nil }
        self = value
    }

    init?(_ text: String) {
        var text = text
        guard let value = text.withUTF8({ JSON(UnsafeRawBufferPointer($0)) }) else { return nil }
        self = value
    }

    subscript(key: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.key == key }?.value
    }

    /// A string's content, or a number's digits; nil for everything else.
    var text: String? {
        switch self {
        case .string(let text), .number(let text): text
        case .bool(let value): value ? "yes" : "no"
        default: nil
        }
    }

    var unsigned: UInt64? { text.flatMap { UInt64($0) } }

    static func == (a: JSON, b: JSON) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.bool(let a), .bool(let b)): a == b
        case (.number(let a), .number(let b)), (.string(let a), .string(let b)): a == b
        case (.array(let a), .array(let b)): a == b
        case (.object(let a), .object(let b)): a.elementsEqual(b) { $0.key == $1.key && $0.value == $1.value }
        default: false
        }
    }
}

private struct JSONParser {
    let bytes: UnsafeRawBufferPointer
    var index = 0
    var depth = 0

    mutating func document() -> JSON? {
        guard let result = value() else { return nil }
        skipSpace()
        return index == bytes.count ? result : nil
    }

    private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || (9...10).contains(byte) || byte == 13 { index += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        index += 1
        return true
    }

    private mutating func word(_ text: StaticString, _ result: JSON) -> JSON? {
        let count = text.utf8CodeUnitCount
        guard bytes.count - index >= count else { return nil }
        for offset in 0..<count where bytes[index + offset] != text.utf8Start[offset] { return nil }
        index += count
        return result
    }

    private mutating func value() -> JSON? {
        skipSpace()
        switch next {
        case UInt8(ascii: "{"): return object()
        case UInt8(ascii: "["): return array()
        case UInt8(ascii: "\""): return string().map { .string($0) }
        case UInt8(ascii: "t"): return word("true", .bool(true))
        case UInt8(ascii: "f"): return word("false", .bool(false))
        case UInt8(ascii: "n"): return word("null", .null)
        default: return number()
        }
    }

    private mutating func number() -> JSON? {
        let start = index
        _ = take(UInt8(ascii: "-"))
        guard digits() else { return nil }
        if take(UInt8(ascii: ".")), !digits() { return nil }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            guard digits() else { return nil }
        }
        return .number(String(decoding: bytes.slice(start..<index), as: UTF8.self))
    }

    private mutating func digits() -> Bool {
        let start = index
        while let byte = next, (48...57).contains(byte) { index += 1 }
        return index > start
    }

    private mutating func object() -> JSON? {
        depth += 1
        defer { depth -= 1 }
        guard depth <= JSON.depthLimit, take(UInt8(ascii: "{")) else { return nil }
        var members: [(key: String, value: JSON)] = []
        skipSpace()
        if take(UInt8(ascii: "}")) { return .object(members) }
        repeat {
            skipSpace()
            guard let key = string() else { return nil }
            skipSpace()
            guard take(UInt8(ascii: ":")), let value = value() else { return nil }
            members.append((key, value))
            skipSpace()
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "}")) ? .object(members) : nil
    }

    private mutating func array() -> JSON? {
        depth += 1
        defer { depth -= 1 }
        guard depth <= JSON.depthLimit, take(UInt8(ascii: "[")) else { return nil }
        var elements: [JSON] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return .array(elements) }
        repeat {
            guard let value = value() else { return nil }
            elements.append(value)
            skipSpace()
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "]")) ? .array(elements) : nil
    }

    private mutating func string() -> String? {
        guard take(UInt8(ascii: "\"")) else { return nil }
        var out: [UInt8] = []
        while let byte = next {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: out, as: UTF8.self)
            case 0..<0x20: return nil
            case UInt8(ascii: "\\"):
                guard let scalar = escape() else { return nil }
                out += Array(String(Character(scalar)).utf8)
            default: out.append(byte)
            }
        }
        return nil
    }

    private mutating func escape() -> Unicode.Scalar? {
        guard let byte = next else { return nil }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            guard let unit = hex4() else { return nil }
            guard (0xd800..<0xdc00).contains(unit) else { return Unicode.Scalar(unit) ?? "\u{fffd}" }
            // The second half of a surrogate pair; a lone half becomes the replacement character.
            let before = index
            guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")), let low = hex4(), (0xdc00..<0xe000).contains(low)
            else {
                index = before
                return "\u{fffd}"
            }
            return Unicode.Scalar(0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00))
        default: return nil
        }
    }

    private mutating func hex4() -> UInt32? {
        guard bytes.count - index >= 4 else { return nil }
        var value: UInt32 = 0
        for offset in 0..<4 {
            guard let digit = Character(Unicode.Scalar(bytes[index + offset])).hexDigitValue else { return nil }
            value = value << 4 | UInt32(digit)
        }
        index += 4
        return value
    }
}
