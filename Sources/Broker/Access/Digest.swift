// Digest: SHA-256 and HMAC from OpenSSL, and comparison in constant time.

import COpenSSL

enum Digest {
    static let size = 32

    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: size)
        _ = SHA256(bytes, bytes.count, &digest)
        return digest
    }

    static func hmac(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: size)
        let done = HMAC(EVP_sha256(), key, Int32(key.count), bytes, bytes.count, &digest, nil)
        precondition(done != nil, "OpenSSL has no SHA-256")
        return digest
    }

    /// Whether two digests are equal, compared in constant time.
    static func isSame(_ a: [UInt8], _ b: [UInt8]) -> Bool {
        a.count == b.count && CRYPTO_memcmp(a, b, a.count) == 0
    }

    /// Parses `sha256:` and 64 hexadecimal digits.
    static func parse(_ text: String) -> [UInt8]? {
        let prefix = "sha256:"
        guard text.hasPrefix(prefix) else { return nil }
        let digits = Array(text.utf8.dropFirst(prefix.utf8.count))
        guard digits.count == 2 * size else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = value(digits[index]), let low = value(digits[index + 1]) else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
