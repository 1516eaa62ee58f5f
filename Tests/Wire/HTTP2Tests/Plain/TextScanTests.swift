// UTF-8 validation, and counts of lines and escapes: compared with the standard library, byte for byte.

import Bytes
import Testing

@testable import HTTP2

struct TextScanTests {
    private func isText(_ bytes: [UInt8]) -> Bool { bytes.withUnsafeBytes { JSONText.escapes($0) != nil } }

    /// Every pair of bytes, with every relevant third and fourth byte, alone and after other text, so that both paths
    /// of the scan are used.
    @Test func sequencesAreToldFromOthers() {
        let interesting: [UInt8] = [0x00, 0x22, 0x7F, 0x80, 0x84, 0x85, 0x8F, 0x90, 0x9F, 0xA0, 0xA8, 0xBF, 0xC0, 0xFF]
        var wrong: [[UInt8]] = []
        func compare(_ bytes: [UInt8]) {
            let expected = String(validating: bytes, as: UTF8.self) != nil
            if isText(bytes) != expected { wrong.append(bytes) }
            if isText(Array("1234567".utf8) + bytes + Array("12345678".utf8)) != expected { wrong.append(bytes) }
        }
        for first in UInt8.min...UInt8.max {
            compare([first])
            for second in UInt8.min...UInt8.max {
                compare([first, second])
                guard first >= 0xC0 else { continue }
                for third in interesting { compare([first, second, third]) }
            }
        }
        for first: UInt8 in 0xEF...0xF6 {
            for second in interesting + [0x8E, 0x91] {
                for third in interesting { for fourth in interesting { compare([first, second, third, fourth]) } }
            }
        }
        #expect(wrong.isEmpty, "\(wrong.prefix(5))")
    }

    @Test func linesAndEscapesAreCounted() {
        var random = PlainRandom(5)
        for _ in 0..<3000 {
            let bytes = nastyPayload(&random)
            let lines = bytes.withUnsafeBytes { TextScan.lines($0) }
            let isText = String(validating: bytes, as: UTF8.self) != nil
            if !isText || bytes.contains(0x0D) {
                #expect(lines == nil)
            } else {
                #expect(lines == 1 + bytes.filter { $0 == 0x0A }.count)
            }
        }
    }

    @Test func numbersAreMeasuredAndWritten() {
        var values: [UInt64] = [0, .max]
        for power in 1...19 {
            let value = (0..<power).reduce(UInt64(1)) { product, _ in product * 10 }
            values += [value - 1, value, value + 1]
        }
        for value in values {
            #expect(RawWriter.digits(value) == String(value).utf8.count)
            var bytes = [UInt8](repeating: 0, count: 24)
            bytes.withUnsafeMutableBytes {
                var writer = RawWriter($0.baseAddress!)
                writer.put(decimal: value)
            }
            #expect(text(Array(bytes.prefix { $0 != 0 })) == String(value))
        }
        for value in [Int64.min, -1, 0, 1, .max] { #expect(RawWriter.digits(value) == String(value).utf8.count) }
    }
}
