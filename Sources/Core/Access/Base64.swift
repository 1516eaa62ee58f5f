// Base64: RFC 4648 read strictly. What could be read in two ways is refused, so that no two texts mean the same.

public enum Base64 {
    public enum Alphabet: Sendable {
        /// Section 4, with padding.
        case standard
        /// Section 5, without padding, as in JWTs (RFC 7515, 2).
        case url
    }

    /// The bytes that `text` stands for; nil if it has another character, the wrong length, or bits left over.
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
