// SafeText: makes bytes from other programs safe to show on a terminal.

import Bytes

enum SafeText {
    /// Appends text for a terminal, with control characters as `\r`, `\x1b` or `\u{202e}` and bytes that are not UTF-8
    /// as `\xff`. Tabs are kept; with `newlines`, so are line ends.
    static func appendForTerminal(_ bytes: UnsafeRawBufferPointer, newlines: Bool, to out: inout ByteBuffer) {
        var index = 0
        var clean = 0  // where the run of harmless bytes begins
        while index < bytes.count {
            let byte = bytes[index]
            if (0x20..<0x7f).contains(byte) || byte == 9 || newlines && byte == 10 {
                index += 1
                continue
            }
            let decoded = TextScan.scalar(bytes, at: index)
            if let decoded, !TextScan.isControl(decoded.value) {
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

    /// A name for a terminal: invisible characters are escaped, too, because they could make it look like another name.
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
        // The blank Braille pattern.
        default: return properties.isDefaultIgnorableCodePoint || scalar.value == 0x2800
        }
    }

    /// `text` for a terminal, on one line.
    static func line(_ text: String) -> String {
        var text = text
        return text.withUTF8 { line(UnsafeRawBufferPointer($0)) }
    }

    /// `bytes`, which may not be UTF-8, for a terminal, on one line.
    static func line(_ bytes: UnsafeRawBufferPointer) -> String {
        var out = ByteBuffer()
        appendForTerminal(bytes, newlines: false, to: &out)
        return String(decoding: out.readable, as: UTF8.self)
    }

    static func hex(_ value: UInt32, digits: Int) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
}
