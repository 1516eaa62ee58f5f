// RawWriter: writes into memory whose size was computed beforehand.

/// A write position that advances. The creator must provide enough space.
@frozen
public struct RawWriter {
    @usableFromInline var place: UnsafeMutablePointer<UInt8>

    @inlinable public init(_ target: UnsafeMutableRawPointer) { place = target.assumingMemoryBound(to: UInt8.self) }

    /// The position after the last byte written.
    @inlinable public var end: UnsafeMutableRawPointer { UnsafeMutableRawPointer(place) }

    @inlinable @inline(__always)
    public mutating func put(_ byte: UInt8) {
        place.pointee = byte
        place += 1
    }

    @inlinable @inline(__always)
    public mutating func put(_ text: StaticString) {
        place.update(from: text.utf8Start, count: text.utf8CodeUnitCount)
        place += text.utf8CodeUnitCount
    }

    @inlinable @inline(__always)
    public mutating func put(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        UnsafeMutableRawPointer(place).copyMemory(from: source, byteCount: bytes.count)
        place += bytes.count
    }

    /// Eight bytes in memory order.
    @inlinable @inline(__always)
    public mutating func put(word: UInt64) {
        UnsafeMutableRawPointer(place).storeBytes(of: word, as: UInt64.self)
        place += 8
    }

    /// Four bytes in memory order.
    @inlinable @inline(__always)
    public mutating func put(half: UInt32) {
        UnsafeMutableRawPointer(place).storeBytes(of: half, as: UInt32.self)
        place += 4
    }

    public mutating func put(decimal value: UInt64) {
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

    public mutating func put(decimal value: Int64) {
        if value < 0 { put(UInt8(ascii: "-")) }
        put(decimal: value.magnitude)
    }

    /// Two hexadecimal digits.
    @inlinable public mutating func put(hex byte: UInt8) {
        put(Hex.digit(byte >> 4))
        put(Hex.digit(byte & 15))
    }

    /// The number of decimal digits of a value.
    public static func digits(_ value: UInt64) -> Int {
        var count = 1
        var rest = value
        while rest >= 10_000 {
            rest /= 10_000
            count += 4
        }
        return count + (rest >= 1000 ? 3 : rest >= 100 ? 2 : rest >= 10 ? 1 : 0)
    }

    public static func digits(_ value: Int64) -> Int { digits(value.magnitude) + (value < 0 ? 1 : 0) }
}
