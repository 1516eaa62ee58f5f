// PercentDecodingTests: percent-encoded text, valid and invalid.

@testable import Bytes
import Testing

@Suite struct PercentDecodingTests {
    @Test(arguments: [
        ("", ""), ("plain+text", "plain+text"), ("a%20b", "a b"), ("%2b%2B", "++"), ("%C3%A9", "é"), ("%25", "%"),
    ])
    func whatItComesTo(text: String, decoded: String) throws {
        #expect(try text[...].percentDecoded() == decoded)
    }

    @Test(arguments: ["%", "%2", "a%", "%zz", "%-0", "%+1", "% 1", "%2g"])
    func digitsMustFollow(text: String) {
        let fault = PercentFault(description: "'\(text)' has a '%' that is not followed by two hexadecimal digits.")
        #expect(throws: fault) { try text[...].percentDecoded() }
    }

    @Test(arguments: ["%ff", "%C3", "%C3x"])
    func itMustBeUTF8(text: String) {
        let fault = PercentFault(description: "'\(text)' is not valid UTF-8 after percent-decoding.")
        #expect(throws: fault) { try text[...].percentDecoded() }
    }

    @Test func digitsAndValuesAreInverse() {
        for value in UInt8(0)..<16 { #expect(Hex.value(Hex.digit(value)) == value) }
        #expect((0...255).count { Hex.value(UInt8($0)) != nil } == 22)
    }
}
