// NATSFields: the parts of a control line.

import Bytes
import Glibc

/// The fields of a line, separated by spaces or tabs, as ranges.
struct NATSFields {
    private let line: UnsafeRawBufferPointer
    private var place = 0

    init(_ line: UnsafeRawBufferPointer) { self.line = line }

    mutating func next() -> Range<Int>? {
        while place < line.count, NATSParser.isSpace(line[place]) { place += 1 }
        let start = place
        while place < line.count, !NATSParser.isSpace(line[place]) { place += 1 }
        return start < place ? start..<place : nil
    }
}

extension UnsafeRawBufferPointer {
    /// Where `byte` first occurs at `start` or after it; nil if it does not.
    package func index(of byte: UInt8, from start: Int = 0) -> Int? {
        guard let baseAddress, start < count, let found = memchr(baseAddress + start, Int32(byte), count - start) else {
            return nil
        }
        return found - UnsafeMutableRawPointer(mutating: baseAddress)
    }

    /// Whether the bytes are `name`, which is in lower case, apart from the case of letters.
    func isWord(_ name: StaticString) -> Bool {
        guard count == name.utf8CodeUnitCount else { return false }
        for index in 0..<count {
            let byte = self[index]
            let lower = byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
            guard lower == name.utf8Start[index] else { return false }
        }
        return true
    }

    /// The value of decimal digits; nil if there are none, another character, or more than 18 digits.
    package var decimal: UInt64? {
        guard count > 0, count <= 18 else { return nil }
        var value: UInt64 = 0
        for byte in self {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            value = value * 10 + UInt64(byte - UInt8(ascii: "0"))
        }
        return value
    }

    /// The bytes without those at both ends for which `isDropped` holds.
    func trimmed(_ isDropped: (UInt8) -> Bool) -> UnsafeRawBufferPointer {
        var range = 0..<count
        while let first = range.first, isDropped(self[first]) { range = range.dropFirst() }
        while let last = range.last, isDropped(self[last]) { range = range.dropLast() }
        return slice(range)
    }
}
