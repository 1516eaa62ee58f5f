// The wire format: numbers, tags, groups, truncated input, and arbitrary bytes.

import Bytes
import Testing

@testable import HTTP2

@Suite struct ProtobufTests {
    /// Every field as text, and the error that ended the parse.
    private func walk(_ bytes: [UInt8]) -> (fields: [String], error: ProtobufError?) {
        bytes.withUnsafeBytes { bytes in
            var reader = ProtobufReader(bytes)
            var fields: [String] = []
            do throws(ProtobufError) {
                while let (number, value) = try reader.next() {
                    switch value {
                    case .varint(let n): fields.append("\(number): \(n)")
                    case .fixed64(let n): fields.append("\(number): f64 \(n)")
                    case .fixed32(let n): fields.append("\(number): f32 \(n)")
                    case .bytes(let part): fields.append("\(number): [\(part.count)]")
                    case .group: fields.append("\(number): group")
                    }
                }
            } catch {
                return (fields, error)
            }
            return (fields, nil)
        }
    }

    @Test(arguments: [
        ("00", 0), ("01", 1), ("7f", 127), ("8001", 128), ("ff7f", 16383), ("808001", 16384), ("8000", 0),
        ("ffffffff0f", UInt64(UInt32.max)), ("ffffffffffffffffff01", UInt64.max), ("80808080808080808001", 1 << 63),
        ("81808080808080808000", 1),
    ])
    func numbers(text: String, value: UInt64) {
        let (fields, error) = walk([0x08] + hex(text))
        #expect(fields == ["1: \(value)"])
        #expect(error == nil)
    }

    @Test func writtenNumbersAreAsLongAsTheirSizeAndComeBack() {
        for shift in 0..<64 {
            for value in [UInt64(1) << UInt64(shift), (1 << UInt64(shift)) - 1, .max >> UInt64(shift)] {
                let bytes = written { $0.append(field: 1, value) }
                #expect(bytes.count == Protobuf.size(field: value))
                #expect(walk(bytes).fields == (value == 0 ? [] : ["1: \(value)"]))
            }
        }
    }

    @Test(arguments: [
        // A number that is truncated, or that has an eleventh byte or a 65th bit.
        ("08", ProtobufError.truncated), ("0880", .truncated), ("08ffffffffffffffffff", .truncated),
        ("08ffffffffffffffffff02", .overlongNumber), ("08ffffffffffffffffff81", .overlongNumber),
        ("0880808080808080808080", .overlongNumber), ("0880808080808080808002", .overlongNumber),
        // Lengths beyond the message, up to those that would not fit an Int.
        ("0a01", .truncated), ("0a0261", .truncated), ("0affffffff07", .truncated),
        ("0affffffffffffffffff01", .truncated), ("0affffffffffffffff7f", .truncated),
        ("09", .truncated), ("0900000000000000", .truncated), ("0d000000", .truncated),
        // Field number 0, wire types 6 and 7, a tag beyond 32 bits.
        ("0001", .badTag), ("0201", .badTag), ("0e", .badTag), ("0f", .badTag), ("8880808010", .badTag),
        ("80", .truncated),
        // Groups.
        ("0b", .truncated), ("0b08", .truncated), ("0c", .strayGroupEnd), ("0b14", .strayGroupEnd),
        ("0b130c14", .strayGroupEnd),
    ])
    func whatIsWrongIsTold(text: String, error: ProtobufError) {
        #expect(walk(hex(text)).error == error)
    }

    @Test func everyWireTypeIsSteppedOver() {
        let bytes = hex(
            "f8ff01 7b" + "0d 01020304" + "09 0102030405060708" + "a206 02 6162" + "13 08 01 1b 1c 0a 01 61 14")
        let (fields, error) = walk(bytes)
        #expect(error == nil)
        #expect(fields == ["4095: 123", "1: f32 67305985", "1: f64 578437695752307201", "100: [2]", "2: group"])
    }

    @Test func theHighestFieldNumberIsRead() {
        #expect(walk(hex("f8ffffff0f 01")).fields == ["536870911: 1"])
    }

    @Test func groupsAreFollowedSoDeepAndNoDeeper() {
        func nested(_ depth: Int) -> [UInt8] {
            Array(repeating: 0x0b, count: depth) + Array(repeating: 0x0c, count: depth)
        }
        #expect(walk(nested(ProtobufReader.deepestGroup)).fields == ["1: group"])
        #expect(walk(nested(ProtobufReader.deepestGroup + 1)).error == .tooDeep)
        #expect(walk(Array(repeating: 0x0b, count: 1_000_000)).error == .tooDeep)
    }

    @Test(arguments: [
        ("", true), ("61", true), ("c3b8", true), ("f09f909f", true), ("00", true), ("ff", false), ("c3", false),
        ("61c3", false), ("eda080", false), ("c080", false), ("f4908080", false), ("80", false),
    ])
    func textIsUTF8(text: String, isText: Bool) {
        #expect(hex(text).withUnsafeBytes { $0.isUTF8 } == isText)
    }

    @Test func randomBytesAreWalkedOrRefusedAndNeverReadBeyond() {
        var random = Repeatable(seed: 1)
        var (whole, broken) = (0, 0)
        for round in 0..<20_000 {
            let bytes =
                round % 2 == 0
                ? random.mutate(Golden.all.randomElement(using: &random)!)
                : (0..<Int.random(in: 0...40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            let (fields, error) = walk(bytes)
            #expect(fields.count <= bytes.count)
            if error == nil { whole += 1 } else { broken += 1 }
        }
        #expect(whole > 1000 && broken > 1000, "\(whole) \(broken)")
    }
}
