// JSONText: the inside of a JSON string, for all code that writes JSON. RFC 8259, section 7. Beyond JSON's rules it
// escapes characters that end a line (U+0085, U+2028, U+2029), control a terminal or change the direction of text, and
// U+FEFF, which some readers drop as a byte order mark. So a line of JSON is one line to every reader, and safe to
// display.

public enum JSONText {
    /// How many more bytes `bytes` take when escaped; nil if they are not UTF-8.
    public static func escapes(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
        var more = 0
        var offset = 0
        while offset < bytes.count {
            if offset + 8 <= bytes.count {
                let word = Octet.load(base, offset)
                if Octet.isASCII(word) {
                    more += escapes(ofASCII: word)
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
                if TextScan.isControl(base + offset) { more += 6 - length }
                offset += length
            }
        }
        return more
    }

    /// The same for eight ASCII characters.
    @inline(__always)
    private static func escapes(ofASCII word: UInt64) -> Int {
        let quoted = Octet.equal(word, 0x22) | Octet.equal(word, 0x5C)
        let controls = Octet.below(word, 0x20) | Octet.equal(word, 0x7F)
        if quoted | controls == 0 { return 0 }
        // 0x08 to 0x0D except 0x0B.
        let short = Octet.below(word, 0x0E) & ~Octet.below(word, 0x08) & ~Octet.equal(word, 0x0B)
        // Per character, 0, 1 or 5.
        return Octet.sum(quoted >> 7 &+ controls >> 7 &* 5 &- short >> 7 &* 4)
    }

    /// Writes bytes that `escapes` has measured.
    public static func write(_ bytes: UnsafeRawBufferPointer, to out: inout RawWriter) {
        guard let base = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
        var offset = 0
        while offset < bytes.count {
            if offset + 8 <= bytes.count {
                let word = Octet.load(base, offset)
                if Octet.isASCII(word),
                    Octet.below(word, 0x20) | Octet.equal(word, 0x22) | Octet.equal(word, 0x5C)
                        | Octet.equal(word, 0x7F) == 0
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

    /// Appends a string in quotation marks. Bytes that are not UTF-8 become U+FFFD.
    public static func append(_ bytes: UnsafeRawBufferPointer, to out: inout ByteBuffer) {
        guard let more = escapes(bytes) else { return append(bytes.text, to: &out) }
        let size = bytes.count + more + 2
        var writer = RawWriter(out.reserve(size))
        writer.put(UInt8(ascii: "\""))
        write(bytes, to: &writer)
        writer.put(UInt8(ascii: "\""))
        out.commit(size)
    }

    /// Appends a string in quotation marks.
    public static func append(_ text: String, to out: inout ByteBuffer) {
        var text = text
        text.withUTF8 { append(UnsafeRawBufferPointer($0), to: &out) }
    }

    /// Appends a string in quotation marks.
    public static func append(_ text: String, to out: inout [UInt8]) {
        var text = text
        out.append(UInt8(ascii: "\""))
        text.withUTF8 { utf8 in
            let bytes = UnsafeRawBufferPointer(utf8)
            if escapes(bytes) == 0 { return out.append(contentsOf: bytes) }
            out.append(contentsOf: escaped(bytes).utf8)
        }
        out.append(UInt8(ascii: "\""))
    }

    /// `text` in quotation marks.
    public static func quoted(_ text: String) -> String { "\"\(escaped(text))\"" }

    /// `text` as it is written between quotation marks.
    public static func escaped(_ text: String) -> String {
        var text = text
        return text.withUTF8 { escaped(UnsafeRawBufferPointer($0)) }
    }

    private static func escaped(_ bytes: UnsafeRawBufferPointer) -> String {
        guard let more = escapes(bytes) else { preconditionFailure("a String is always UTF-8") }
        guard bytes.count > 0 else { return "" }
        return String(unsafeUninitializedCapacity: bytes.count + more) { target in
            var writer = RawWriter(target.baseAddress!)
            write(bytes, to: &writer)
            return bytes.count + more
        }
    }

    /// The number of bytes that an ASCII character takes when escaped.
    @inline(__always)
    private static func escaped(_ byte: UInt8) -> Int {
        switch byte {
        case 0x22, 0x5C, 0x08, 0x09, 0x0A, 0x0C, 0x0D: 2
        case 0..<0x20, 0x7F: 6
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
        case 0..<0x20, 0x7F: out.put(unicode: UInt32(byte))
        default: out.put(byte)
        }
    }

    /// Writes one multi-byte sequence, which must be well-formed. Returns its length.
    @inline(__always)
    private static func writeSequence(_ bytes: UnsafePointer<UInt8>, _ left: Int, to out: inout RawWriter) -> Int {
        let length = TextScan.sequence(bytes, left)
        if TextScan.isControl(bytes) {
            out.put(unicode: TextScan.scalar(bytes, length))
        } else {
            for index in 0..<length { out.put(bytes[index]) }
        }
        return length
    }
}

extension RawWriter {
    /// `\u` and four hexadecimal digits.
    @inline(__always)
    fileprivate mutating func put(unicode scalar: UInt32) {
        put(UInt8(ascii: "\\"))
        put(UInt8(ascii: "u"))
        put(hex: UInt8(truncatingIfNeeded: scalar >> 8))
        put(hex: UInt8(truncatingIfNeeded: scalar))
    }
}
