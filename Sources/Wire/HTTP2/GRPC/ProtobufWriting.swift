// Writing protobuf's wire format: sizes first, since an embedded message stands behind its length, then the bytes into
// memory that is exactly so large. Fields with their default value are left out, as proto3 has it.

import Bytes

/// Sizes of fields, in bytes. Field numbers are those of our own messages, below 16, so that a tag is one byte.
enum Protobuf {
    /// Bytes that a number takes: 1 for each 7 bits.
    @inline(__always)
    static func size(varint value: UInt64) -> Int {
        ((63 - (value | 1).leadingZeroBitCount) &* 9 &+ 73) >> 6
    }

    /// A field with a number, which is left out if it is 0.
    @inline(__always)
    static func size(field value: UInt64) -> Int { value == 0 ? 0 : 1 + size(varint: value) }

    /// A field with so many bytes, its tag and length included, even if there are none.
    @inline(__always)
    static func size(bytes count: Int) -> Int { 1 + size(varint: UInt64(count)) + count }
}

extension RawWriter {
    @inline(__always)
    mutating func varint(_ value: UInt64) {
        var value = value
        while value >= 0x80 {
            put(UInt8(truncatingIfNeeded: value) | 0x80)
            value >>= 7
        }
        put(UInt8(truncatingIfNeeded: value))
    }

    /// A field with a number; nothing if it is 0.
    @inline(__always)
    mutating func field(_ number: UInt8, _ value: UInt64) {
        guard value != 0 else { return }
        put(number << 3)
        varint(value)
    }

    /// Tag and length of a field of `count` bytes, which are to follow.
    @inline(__always)
    mutating func head(_ number: UInt8, count: Int) {
        put(number << 3 | 2)
        varint(UInt64(count))
    }

    /// A field of bytes, even if there are none.
    mutating func field(_ number: UInt8, _ bytes: UnsafeRawBufferPointer) {
        head(number, count: bytes.count)
        put(bytes)
    }
}

// Messages that are rarely sent are put together in a buffer.
extension ByteBuffer {
    mutating func append(field number: UInt8, _ value: UInt64) {
        var writer = RawWriter(reserve(Protobuf.size(field: value)))
        writer.field(number, value)
        commit(Protobuf.size(field: value))
    }

    /// A field of bytes, even if there are none.
    mutating func append(field number: UInt8, _ bytes: UnsafeRawBufferPointer) {
        var writer = RawWriter(reserve(Protobuf.size(bytes: bytes.count)))
        writer.field(number, bytes)
        commit(Protobuf.size(bytes: bytes.count))
    }

    /// A field of text; nothing if it is empty.
    mutating func append(field number: UInt8, _ text: String) {
        guard !text.isEmpty else { return }
        append(element: number, text)
    }

    /// A field of text that is one of several or of a oneof, so that it is written even if it is empty.
    mutating func append(element number: UInt8, _ text: String) {
        var text = text
        text.withUTF8 { append(field: number, UnsafeRawBufferPointer($0)) }
    }

    /// An embedded message, which `body` writes.
    mutating func append(field number: UInt8, _ body: (inout ByteBuffer) -> Void) {
        var inner = ByteBuffer()
        body(&inner)
        append(field: number, inner.readable)
    }
}
