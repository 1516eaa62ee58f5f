// RawWriter: writes into memory whose size was measured before.

import Bytes

/// A place to write at, which moves on. Whoever made it has seen to the room.
struct RawWriter {
    private(set) var place: UnsafeMutablePointer<UInt8>

    init(_ target: UnsafeMutableRawPointer) { place = target.assumingMemoryBound(to: UInt8.self) }

    /// Behind what was written.
    var end: UnsafeMutableRawPointer { UnsafeMutableRawPointer(place) }

    @inline(__always)
    mutating func put(_ byte: UInt8) {
        place.pointee = byte
        place += 1
    }

    @inline(__always)
    mutating func put(_ text: StaticString) {
        place.update(from: text.utf8Start, count: text.utf8CodeUnitCount)
        place += text.utf8CodeUnitCount
    }

    @inline(__always)
    mutating func put(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        UnsafeMutableRawPointer(place).copyMemory(from: source, byteCount: bytes.count)
        place += bytes.count
    }

    /// Eight bytes as they stand in memory.
    @inline(__always)
    mutating func put(word: UInt64) {
        UnsafeMutableRawPointer(place).storeBytes(of: word, as: UInt64.self)
        place += 8
    }

    /// Four bytes as they stand in memory.
    @inline(__always)
    mutating func put(half: UInt32) {
        UnsafeMutableRawPointer(place).storeBytes(of: half, as: UInt32.self)
        place += 4
    }

    mutating func put(decimal value: UInt64) {
        let count = RawWriter.digits(value)
        var rest = value
        var index = count
        repeat {
            index -= 1
            let next = rest / 10
            place[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest - next * 10)
            rest = next
        } while rest > 0
        place += count
    }

    mutating func put(decimal value: Int64) {
        if value < 0 { put(UInt8(ascii: "-")) }
        put(decimal: value.magnitude)
    }

    /// Two hexadecimal digits.
    mutating func put(hex byte: UInt8) {
        put(Hex.digit(byte >> 4))
        put(Hex.digit(byte & 15))
    }

    /// Base64. RFC 4648, section 4.
    mutating func put(base64 bytes: UnsafeRawBufferPointer, isPadded: Bool = true) {
        var index = 0
        while index + 3 <= bytes.count {
            let group = UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8 | UInt32(bytes[index + 2])
            put(sextets: group, 4)
            index += 3
        }
        switch bytes.count - index {
        case 1:
            put(sextets: UInt32(bytes[index]) << 16, 2)
            if isPadded { put("==") }
        case 2:
            put(sextets: UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8, 3)
            if isPadded { put(UInt8(ascii: "=")) }
        default: break
        }
    }

    /// The `count` highest of four groups of six bits.
    @inline(__always)
    private mutating func put(sextets group: UInt32, _ count: Int) {
        let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        for index in 0..<count {
            put(alphabet.utf8Start[Int(group >> UInt32(18 - 6 * index) & 63)])
        }
    }

    /// How many digits a number has in decimal.
    static func digits(_ value: UInt64) -> Int {
        var count = 1
        var rest = value
        while rest >= 10_000 {
            rest /= 10_000
            count += 4
        }
        return count + (rest >= 1000 ? 3 : rest >= 100 ? 2 : rest >= 10 ? 1 : 0)
    }

    static func digits(_ value: Int64) -> Int { digits(value.magnitude) + (value < 0 ? 1 : 0) }

    /// How many characters `count` bytes make in base64.
    static func base64(_ count: Int, isPadded: Bool = true) -> Int {
        isPadded ? (count + 2) / 3 * 4 : count / 3 * 4 + (count % 3 == 0 ? 0 : count % 3 + 1)
    }
}
