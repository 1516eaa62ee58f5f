// Percent-decoding for routes, HTTP targets and URLs.

/// A text that cannot be percent-decoded. `description` is a sentence that says why.
public struct PercentFault: Error, Equatable, CustomStringConvertible {
    public let description: String
}

extension Substring {
    /// The percent-decoded text. RFC 3986, section 2.1.
    /// - Throws: if a percent sign is not followed by two hexadecimal digits, or if the result is not UTF-8.
    public func percentDecoded() throws(PercentFault) -> String {
        guard utf8.contains(UInt8(ascii: "%")) else { return String(self) }
        var bytes: [UInt8] = []
        var rest = utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Hex.value), let low = rest.popFirst().flatMap(Hex.value) else {
                throw PercentFault(description: "'\(self)' has a '%' that is not followed by two hexadecimal digits.")
            }
            bytes.append(high << 4 | low)
        }
        guard let decoded = String(validating: bytes, as: UTF8.self) else {
            throw PercentFault(description: "'\(self)' is not valid UTF-8 after percent-decoding.")
        }
        return decoded
    }
}

/// Hexadecimal digits.
public enum Hex {
    /// The value of a digit; nil if it is not one.
    @inlinable public static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// The digit for a value below 16.
    @inlinable public static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }
}
