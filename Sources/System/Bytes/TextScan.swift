// TextScan: scans untrusted bytes once, eight at a time if they are ASCII, to find out whether they are UTF-8 and what
// in them cannot be displayed or written unchanged.

/// Operations on eight bytes at a time. All except `isASCII` and `sum` require bytes below 0x80 and are exact for them:
/// each byte's sum stays below 0x100, so nothing is carried into its neighbor.
enum Octet {
    static let high: UInt64 = 0x8080_8080_8080_8080

    @inline(__always)
    static func load(_ base: UnsafePointer<UInt8>, _ offset: Int) -> UInt64 {
        UnsafeRawPointer(base + offset).loadUnaligned(as: UInt64.self)
    }

    @inline(__always)
    static func isASCII(_ word: UInt64) -> Bool { word & high == 0 }

    /// The highest bit of each byte that equals `byte`.
    @inline(__always)
    static func equal(_ word: UInt64, _ byte: UInt8) -> UInt64 {
        ~((word ^ (UInt64(byte) &* 0x0101_0101_0101_0101)) &+ 0x7F7F_7F7F_7F7F_7F7F) & high
    }

    /// The sum of the bytes; it must be below 0x100.
    @inline(__always)
    static func sum(_ word: UInt64) -> Int { Int((word &* 0x0101_0101_0101_0101) >> 56) }

    /// The highest bit of each byte below `byte`, which is at most 0x80.
    @inline(__always)
    static func below(_ word: UInt64, _ byte: UInt8) -> UInt64 {
        ~(word &+ (UInt64(0x80 - byte) &* 0x0101_0101_0101_0101)) & high
    }
}

public enum TextScan {
    /// The length in bytes, 2 to 4, of the well-formed sequence that begins with the first of `left` bytes, which must
    /// not be ASCII; 0 if it is ill-formed. The Unicode Standard, table 3-7.
    @inline(__always)
    static func sequence(_ bytes: UnsafePointer<UInt8>, _ left: Int) -> Int {
        let first = bytes[0]
        switch first {
        case 0xC2...0xDF:
            return left >= 2 && isContinuation(bytes[1]) ? 2 : 0
        case 0xE0...0xEF:
            guard left >= 3, isContinuation(bytes[1]), isContinuation(bytes[2]) else { return 0 }
            // Refuse overlong forms and surrogates.
            if first == 0xE0 && bytes[1] < 0xA0 || first == 0xED && bytes[1] > 0x9F { return 0 }
            return 3
        case 0xF0...0xF4:
            guard left >= 4, isContinuation(bytes[1]), isContinuation(bytes[2]), isContinuation(bytes[3]) else {
                return 0
            }
            // Refuse overlong forms and values beyond U+10FFFF.
            if first == 0xF0 && bytes[1] < 0x90 || first == 0xF4 && bytes[1] > 0x8F { return 0 }
            return 4
        default:
            return 0
        }
    }

    /// The scalar of a well-formed sequence of `length` bytes, 2 to 4.
    @inline(__always)
    static func scalar(_ bytes: UnsafePointer<UInt8>, _ length: Int) -> UInt32 {
        var value = UInt32(bytes[0]) & (0x7F >> UInt32(length))
        for index in 1..<length { value = value << 6 | UInt32(bytes[index] & 0x3F) }
        return value
    }

    /// The scalar that begins at `index` and its length in bytes; nil if the bytes there are not UTF-8.
    public static func scalar(_ bytes: UnsafeRawBufferPointer, at index: Int) -> (value: UInt32, length: Int)? {
        guard bytes[index] >= 0x80 else { return (UInt32(bytes[index]), 1) }
        guard let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
        let length = sequence(base + index, bytes.count - index)
        return length > 0 ? (scalar(base + index, length), length) : nil
    }

    /// Whether a character ends a line for some reader, controls a terminal, changes the order of displayed text, or
    /// may be dropped as a byte order mark.
    public static func isControl(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0..<0x20, 0x7F..<0xA0, 0x61C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF, 0xFFF9...0xFFFB:
            true
        default: false
        }
    }

    /// The same for a well-formed sequence of 2 to 4 bytes.
    @inline(__always)
    static func isControl(_ bytes: UnsafePointer<UInt8>) -> Bool {
        switch bytes[0] {
        case 0xC2: bytes[1] < 0xA0
        case 0xD8: bytes[1] == 0x9C
        case 0xE2: bytes[1] & 0xFE == 0x80 && isControl(scalar(bytes, 3))
        case 0xEF: bytes[1] >= 0xBB && isControl(scalar(bytes, 3))
        default: false
        }
    }

    @inline(__always)
    private static func isContinuation(_ byte: UInt8) -> Bool { byte & 0xC0 == 0x80 }

    /// The number of lines in the bytes, at least one. Nil if they would not survive being sent as lines of text: they
    /// are not UTF-8, or have a carriage return, which a reader cannot tell from a line feed.
    public static func lines(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 1 }
        var feeds = 0
        var offset = 0
        while offset < bytes.count {
            if offset + 8 <= bytes.count {
                let word = Octet.load(base, offset)
                if Octet.isASCII(word) {
                    if Octet.equal(word, 0x0D) != 0 { return nil }
                    feeds += Octet.equal(word, 0x0A).nonzeroBitCount
                    offset += 8
                    continue
                }
            }
            // Up to the next word.
            let end = Swift.min(offset + 8, bytes.count)
            while offset < end {
                let byte = base[offset]
                if byte >= 0x80 {
                    let length = sequence(base + offset, bytes.count - offset)
                    guard length > 0 else { return nil }
                    offset += length
                } else {
                    if byte == 0x0D { return nil }
                    if byte == 0x0A { feeds += 1 }
                    offset += 1
                }
            }
        }
        return feeds + 1
    }
}

extension UnsafeRawBufferPointer {
    /// No bytes.
    public static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

    /// Whether the bytes are well-formed UTF-8. Neither copies nor allocates.
    public var isUTF8: Bool {
        guard !isEmpty else { return true }
        // Most texts are short and ASCII.
        if allSatisfy({ $0 < 0x80 }) { return true }
        return withMemoryRebound(to: UInt8.self) { bytes in
            do throws(UTF8.ValidationError) {
                _ = try UTF8Span(validating: bytes.span)
                return true
            } catch {
                return false
            }
        }
    }

    /// The bytes as text; bytes that are not UTF-8 become U+FFFD.
    public var text: String { String(decoding: self, as: UTF8.self) }
}
