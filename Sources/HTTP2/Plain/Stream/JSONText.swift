// JSONText: the inside of a JSON string. RFC 8259, section 7. Beside what JSON asks for, the line separators U+0085,
// U+2028 and U+2029 are escaped, so that a line of JSON is one line to every reader, and so is U+FEFF, which some
// readers take for a byte order mark wherever it stands and drop.

import Bytes

enum JSONText {
    /// How many bytes more `bytes` take once escaped; nil if they are not UTF-8.
    static func escapes(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
        var more = 0
        var offset = 0
        while offset < bytes.count {
            if offset + 8 <= bytes.count {
                let word = Octet.load(base, offset)
                if Octet.isASCII(word) {
                    more += (Octet.equal(word, 0x22) | Octet.equal(word, 0x5C)).nonzeroBitCount
                    let controls = Octet.below(word, 0x20)
                    if controls != 0 {
                        let short =
                            Octet.equal(word, 0x08) | Octet.equal(word, 0x09) | Octet.equal(word, 0x0A)
                            | Octet.equal(word, 0x0C) | Octet.equal(word, 0x0D)
                        more += 5 * controls.nonzeroBitCount - 4 * short.nonzeroBitCount
                    }
                    offset += 8
                    continue
                }
            }
            let end = Swift.min(offset + 8, bytes.count)
            while offset < end {
                if base[offset] < 0x80 {
                    more += escaped(base[offset]) - 1
                    offset += 1
                    continue
                }
                let length = TextScan.sequence(base + offset, bytes.count - offset)
                guard length > 0 else { return nil }
                if isEscaped(base + offset) { more += 6 - length }
                offset += length
            }
        }
        return more
    }

    /// Writes what `escapes` has measured.
    static func write(_ bytes: UnsafeRawBufferPointer, to out: inout RawWriter) {
        guard let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
        var offset = 0
        while offset < bytes.count {
            if offset + 8 <= bytes.count {
                let word = Octet.load(base, offset)
                if Octet.isASCII(word),
                    Octet.below(word, 0x20) | Octet.equal(word, 0x22) | Octet.equal(word, 0x5C) == 0
                {
                    out.put(word: word)
                    offset += 8
                    continue
                }
            }
            let end = Swift.min(offset + 8, bytes.count)
            while offset < end {
                let byte = base[offset]
                if byte < 0x80 {
                    writeASCII(byte, to: &out)
                    offset += 1
                    continue
                }
                offset += writeSequence(base + offset, bytes.count - offset, to: &out)
            }
        }
    }

    /// A string in quotation marks, for what is not written often.
    static func append(_ text: String, into out: inout ByteBuffer) {
        var text = text
        text.withUTF8 { utf8 in
            let bytes = UnsafeRawBufferPointer(utf8)
            guard let more = escapes(bytes) else { preconditionFailure("a String is always UTF-8") }
            let size = bytes.count + more + 2
            var writer = RawWriter(out.reserve(size))
            writer.put(UInt8(ascii: "\""))
            write(bytes, to: &writer)
            writer.put(UInt8(ascii: "\""))
            out.commit(size)
        }
    }

    /// Bytes that an ASCII character takes.
    @inline(__always)
    private static func escaped(_ byte: UInt8) -> Int {
        switch byte {
        case 0x22, 0x5C, 0x08, 0x09, 0x0A, 0x0C, 0x0D: 2
        case 0..<0x20: 6
        default: 1
        }
    }

    @inline(__always)
    private static func writeASCII(_ byte: UInt8, to out: inout RawWriter) {
        switch byte {
        case 0x22: out.put("\\\"")
        case 0x5C: out.put("\\\\")
        case 0x08: out.put("\\b")
        case 0x09: out.put("\\t")
        case 0x0A: out.put("\\n")
        case 0x0C: out.put("\\f")
        case 0x0D: out.put("\\r")
        case 0..<0x20:
            // `\u00`, and two digits; below 0x20 the first of them is 0 or 1.
            out.put(half: 0x3030_755C)
            out.put(UInt8(ascii: "0") + (byte >> 4))
            out.put(Hex.digit(byte & 15))
        default: out.put(byte)
        }
    }

    /// Writes one sequence of bytes above ASCII, well-formed for sure, and returns its length.
    @inline(__always)
    private static func writeSequence(_ bytes: UnsafePointer<UInt8>, _ left: Int, to out: inout RawWriter) -> Int {
        let length = TextScan.sequence(bytes, left)
        if isEscaped(bytes) {
            switch bytes[0] {
            case 0xC2: out.put("\\u0085")
            case 0xE2: out.put(bytes[2] == 0xA8 ? "\\u2028" : "\\u2029")
            default: out.put("\\ufeff")
            }
        } else {
            for index in 0..<length { out.put(bytes[index]) }
        }
        return length
    }

    /// U+0085, U+2028, U+2029 or U+FEFF: all of them take 6 bytes.
    @inline(__always)
    private static func isEscaped(_ bytes: UnsafePointer<UInt8>) -> Bool {
        switch bytes[0] {
        case 0xC2: bytes[1] == 0x85
        case 0xE2: bytes[1] == 0x80 && bytes[2] & 0xFE == 0xA8
        case 0xEF: bytes[1] == 0xBB && bytes[2] == 0xBF
        default: false
        }
    }
}
