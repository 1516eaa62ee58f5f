// SafeText: bytes that somebody else wrote, made harmless for a terminal or a JSON string.

import Bytes

enum SafeText {
    /// The scalar that begins at `index` and its length in bytes; nil when the bytes there are not UTF-8.
    static func scalar(_ bytes: UnsafeRawBufferPointer, at index: Int) -> (value: UInt32, length: Int)? {
        let first = UInt32(bytes[index])
        let (length, lowest): (Int, UInt32)
        var value: UInt32
        switch first {
        case 0..<0x80: return (first, 1)
        case 0xc2..<0xe0: (length, lowest, value) = (2, 0x80, first & 0x1f)
        case 0xe0..<0xf0: (length, lowest, value) = (3, 0x800, first & 0x0f)
        case 0xf0..<0xf5: (length, lowest, value) = (4, 0x10000, first & 0x07)
        default: return nil
        }
        guard bytes.count - index >= length else { return nil }
        for offset in 1..<length {
            let next = UInt32(bytes[index + offset])
            guard next & 0xc0 == 0x80 else { return nil }
            value = value << 6 | next & 0x3f
        }
        guard value >= lowest, value <= 0x10ffff, !(0xd800...0xdfff).contains(value) else { return nil }
        return (value, length)
    }

    static func isUTF8(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index < bytes.count {
            guard let (_, length) = scalar(bytes, at: index) else { return false }
            index += length
        }
        return true
    }

    /// A terminal obeys it, or shows text in another order than it stands.
    static func isControl(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0..<0x20, 0x7f..<0xa0, 0x61c, 0x200e, 0x200f, 0x2028...0x202e, 0x2066...0x2069, 0xfeff, 0xfff9...0xfffb:
            true
        default: false
        }
    }

    /// Appends text for a terminal: control characters as `\r`, `\x1b` or `\u{202e}`, bytes that are not UTF-8 as
    /// `\xff`. Tabs, and with `newlines` line ends, stay.
    static func appendForTerminal(_ bytes: UnsafeRawBufferPointer, newlines: Bool, to out: inout ByteBuffer) {
        var index = 0
        var clean = 0  // where the run of harmless bytes begins
        while index < bytes.count {
            let byte = bytes[index]
            if (0x20..<0x7f).contains(byte) || byte == 9 || newlines && byte == 10 {
                index += 1
                continue
            }
            let decoded = scalar(bytes, at: index)
            if let decoded, !isControl(decoded.value) {
                index += decoded.length
                continue
            }
            out.append(bytes.slice(clean..<index))
            switch (byte, decoded) {
            case (_, nil): out.append("\\x" + hex(UInt32(byte), digits: 2))
            case (9, _): out.append("\\t")
            case (10, _): out.append("\\n")
            case (13, _): out.append("\\r")
            case (_, let decoded?) where decoded.value < 0x80: out.append("\\x" + hex(decoded.value, digits: 2))
            case (_, let decoded?): out.append("\\u{" + hex(decoded.value, digits: 1) + "}")
            }
            index += decoded?.length ?? 1
            clean = index
        }
        out.append(bytes.slice(clean..<bytes.count))
    }

    /// A name for a terminal: marks that cannot be seen are written out, too, or it could look like another.
    static func name(_ text: String) -> String {
        var out = ""
        for scalar in line(text).unicodeScalars {
            if isInvisible(scalar) {
                out += "\\u{\(hex(scalar.value, digits: 1))}"
            } else {
                out.unicodeScalars.append(scalar)
            }
        }
        return out
    }

    private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        guard scalar.value >= 0x80 else { return false }
        let properties = scalar.properties
        switch properties.generalCategory {
        case .format, .spaceSeparator, .lineSeparator, .paragraphSeparator: return true
        // Braille's blank.
        default: return properties.isDefaultIgnorableCodePoint || scalar.value == 0x2800
        }
    }

    /// `text` for a terminal, on one line.
    static func line(_ text: String) -> String {
        var text = text
        return text.withUTF8 { line(UnsafeRawBufferPointer($0)) }
    }

    /// The same for bytes, which need not be UTF-8.
    static func line(_ bytes: UnsafeRawBufferPointer) -> String {
        var out = ByteBuffer()
        appendForTerminal(bytes, newlines: false, to: &out)
        return String(decoding: out.readable, as: UTF8.self)
    }

    /// Appends `bytes`, which are UTF-8, as a JSON string with its quotes; whatever a terminal would obey is escaped.
    static func appendJSON(_ bytes: UnsafeRawBufferPointer, to out: inout ByteBuffer) {
        out.append("\"")
        var clean = 0
        var next = 0
        while next < bytes.count {
            let index = next
            let (value, length) = scalar(bytes, at: index) ?? (0xfffd, 1)
            next += length
            guard value == 0x22 || value == 0x5c || isControl(value) else { continue }
            out.append(bytes.slice(clean..<index))
            clean = next
            switch value {
            case 0x22: out.append("\\\"")
            case 0x5c: out.append("\\\\")
            case 8: out.append("\\b")
            case 9: out.append("\\t")
            case 10: out.append("\\n")
            case 12: out.append("\\f")
            case 13: out.append("\\r")
            default: out.append("\\u" + hex(value, digits: 4))
            }
        }
        out.append(bytes.slice(clean..<bytes.count))
        out.append("\"")
    }

    static func appendJSON(_ text: String, to out: inout ByteBuffer) {
        var text = text
        text.withUTF8 { appendJSON(UnsafeRawBufferPointer($0), to: &out) }
    }

    /// Appends `bytes` in base64 (RFC 4648, with padding).
    static func appendBase64(_ bytes: UnsafeRawBufferPointer, to out: inout ByteBuffer) {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        guard !bytes.isEmpty else { return }
        let target = out.reserve((bytes.count + 2) / 3 * 4)
        var written = 0
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let have = min(3, bytes.count - start)
            var group: UInt32 = 0
            for offset in 0..<3 { group = group << 8 | (offset < have ? UInt32(bytes[start + offset]) : 0) }
            for digit in 0..<4 {
                let letter = digit <= have ? letters[Int(group >> UInt32(18 - 6 * digit) & 63)] : UInt8(ascii: "=")
                target.storeBytes(of: letter, toByteOffset: written, as: UInt8.self)
                written += 1
            }
        }
        out.commit(written)
    }

    static func hex(_ value: UInt32, digits: Int) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
}
