// Base64, UTF-8 and JSON text: compared with the RFCs' vectors and the standard library.

import Bytes
import Testing

@Suite struct Base64Tests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy"),
    ])
    func theVectorsOfTheRFC(text: String, encoded: String) {
        // RFC 4648, section 10.
        #expect(Array(text.utf8).withUnsafeBytes { Base64.encode($0) } == encoded)
        #expect(Base64.decode(Array(encoded.utf8), .standard) == Array(text.utf8))
        #expect(Base64.size(text.utf8.count) == encoded.utf8.count)
        #expect(Base64.size(text.utf8.count, isPadded: false) == encoded.utf8.filter { $0 != UInt8(ascii: "=") }.count)
    }

    @Test(arguments: ["Zg", "Zg=", "Zh==", "Zg==\n", "Z===", "=", "Zm9v=", "Zm-v", "Zm 9v"])
    func whatCouldBeReadInTwoWaysIsRefused(text: String) {
        #expect(Base64.decode(Array(text.utf8), .standard) == nil)
    }

    @Test func theAlphabetOfURLs() {
        #expect(Base64.decode(Array("-_8".utf8), .url) == [0xFB, 0xFF])
        #expect(Base64.decode(Array("+/8".utf8), .url) == nil)
        #expect(Base64.decode(Array("+/8=".utf8), .standard) == [0xFB, 0xFF])
        #expect([UInt8](arrayLiteral: 0xFB, 0xFF).withUnsafeBytes { Base64.encode($0, .url) } == "-_8")
        #expect([UInt8](arrayLiteral: 0xFB, 0xFF).withUnsafeBytes { Base64.encode($0) } == "+/8=")
    }
}

@Suite struct JSONTextTests {
    @Test(arguments: [
        ("", #""""#), ("plain", #""plain""#), ("a\"b\\c", #""a\"b\\c""#), ("\u{8}\t\n\u{c}\r", #""\b\t\n\f\r""#),
        ("\0\u{1f}\u{7f}", #""\u0000\u001f\u007f""#), ("é€😀", #""é€😀""#),
        ("\u{80}\u{85}\u{9f}\u{a0}", "\"\\u0080\\u0085\\u009f\u{a0}\""),
        ("\u{61c}\u{200e}\u{2028}\u{202e}\u{2066}", #""\u061c\u200e\u2028\u202e\u2066""#),
        ("\u{feff}\u{fff9}\u{fffc}", "\"\\ufeff\\ufff9\u{fffc}\""),
    ])
    func whatIsEscaped(text: String, json: String) {
        #expect(JSONText.quoted(text) == json)
        var buffer = ByteBuffer()
        JSONText.append(text, to: &buffer)
        #expect(buffer.readable.text == json)
        var array = Array("x".utf8)
        JSONText.append(text, to: &array)
        #expect(String(decoding: array, as: UTF8.self) == "x" + json)
    }

    /// Each scalar alone, and with seven others before it, so that both paths through the scan are taken.
    @Test func everyScalarIsMeasuredAndWrittenAlike() {
        var wrong: [UInt32] = []
        for value in UInt32(0)...0x10FFFF where value < 0x3000 || value % 97 == 0 || value >> 12 == 0xF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let isEscaped = TextScan.isControl(value) || scalar == "\"" || scalar == "\\"
            for text in [String(scalar), "1234567\(scalar)12345678"] {
                let escaped = JSONText.escaped(text)
                if (escaped != text) != isEscaped { wrong.append(value) }
                let place = text.utf8.count > 4 ? 7 : 0
                let read = Array(text.utf8).withUnsafeBytes { TextScan.scalar($0, at: place)?.value }
                if read != value { wrong.append(value) }
            }
        }
        #expect(wrong.isEmpty, "\(wrong.prefix(5))")
    }

    @Test func bytesThatAreNotUTF8AreReplaced() {
        var out = ByteBuffer()
        [UInt8(ascii: "a"), 0xFF].withUnsafeBytes { JSONText.append($0, to: &out) }
        #expect(out.readable.text == "\"a\u{fffd}\"")
        #expect([UInt8(0xC3)].withUnsafeBytes { JSONText.escapes($0) } == nil)
    }
}
