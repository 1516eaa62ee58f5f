// Base64: RFC 4648, encoding and decoding. Decoding is strict: it refuses ambiguous input, so that no two texts have
// the same meaning.

public enum Base64 {
    /// The number of characters that encode `count` bytes.
    public static func size(_ count: Int, isPadded: Bool = true) -> Int {
        isPadded ? (count + 2) / 3 * 4 : count / 3 * 4 + (count % 3 == 0 ? 0 : count % 3 + 1)
    }

    /// The text of `bytes`.
    public static func encode(_ bytes: UnsafeRawBufferPointer, _ alphabet: Alphabet = .standard) -> String {
        guard !bytes.isEmpty else { return "" }
        let isPadded = alphabet == .standard
        let size = size(bytes.count, isPadded: isPadded)
        return String(unsafeUninitializedCapacity: size) { target in
            var writer = RawWriter(target.baseAddress!)
            writer.put(base64: bytes, alphabet, isPadded: isPadded)
            return size
        }
    }

    public enum Alphabet: Sendable {
        /// Section 4, with padding.
        case standard
        /// Section 5, without padding, as in JWTs (RFC 7515, 2).
        case url

        fileprivate var digits: StaticString {
            switch self {
            case .standard: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
            case .url: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
            }
        }
    }

    /// The decoded bytes; nil if the text has another character, the wrong length, or bits left over.
    public static func decode(_ text: some BidirectionalCollection<UInt8>, _ alphabet: Alphabet) -> [UInt8]? {
        var rest = text[...]
        if alphabet == .standard {
            guard text.count % 4 == 0 else { return nil }
            if rest.last == UInt8(ascii: "=") { rest = rest.dropLast() }
            if rest.last == UInt8(ascii: "=") { rest = rest.dropLast() }
        }
        guard rest.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(rest.count / 4 * 3 + 2)
        var bits: UInt32 = 0
        var count = 0
        for digit in rest {
            guard let value = value(digit, alphabet) else { return nil }
            bits = bits << 6 | UInt32(value)
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
            }
        }
        return bits & (1 << UInt32(count) - 1) == 0 ? bytes : nil
    }

    private static func value(_ digit: UInt8, _ alphabet: Alphabet) -> UInt8? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): digit - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+") where alphabet == .standard: 62
        case UInt8(ascii: "/") where alphabet == .standard: 63
        case UInt8(ascii: "-") where alphabet == .url: 62
        case UInt8(ascii: "_") where alphabet == .url: 63
        default: nil
        }
    }
}

extension RawWriter {
    /// Writes `bytes` in base64. RFC 4648, sections 4 and 5.
    public mutating func put(
        base64 bytes: UnsafeRawBufferPointer, _ alphabet: Base64.Alphabet = .standard, isPadded: Bool = true
    ) {
        let digits = alphabet.digits
        var index = 0
        while index + 3 <= bytes.count {
            let group = UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8 | UInt32(bytes[index + 2])
            put(sextets: group, 4, digits)
            index += 3
        }
        switch bytes.count - index {
        case 1:
            put(sextets: UInt32(bytes[index]) << 16, 2, digits)
            if isPadded { put("==") }
        case 2:
            put(sextets: UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8, 3, digits)
            if isPadded { put(UInt8(ascii: "=")) }
        default: break
        }
    }

    /// Writes the highest `count` of four groups of six bits.
    @inline(__always)
    private mutating func put(sextets group: UInt32, _ count: Int, _ digits: StaticString) {
        for index in 0..<count {
            put(digits.utf8Start[Int(group >> UInt32(18 - 6 * index) & 63)])
        }
    }
}
