// ProtobufWriting: writes protobuf's wire format. Sizes are computed first, since an embedded message follows its
// length; then the bytes are written into memory of that size. As in proto3, fields with default values are left out.

import Bytes

/// Sizes of fields, in bytes. Field numbers are those of our own messages, below 16, so a tag is one byte.
enum Protobuf {
    /// Bytes of a number: 1 for each 7 bits.
    @inline(__always)
    static func size(varint value: UInt64) -> Int {
        ((63 - (value | 1).leadingZeroBitCount) &* 9 &+ 73) >> 6
    }

    /// Bytes of a field with a number, which is left out if it is 0.
    @inline(__always)
    static func size(field value: UInt64) -> Int { value == 0 ? 0 : 1 + size(varint: value) }

    /// Bytes of a field with `count` bytes, including its tag and length, even if `count` is 0.
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

    /// Writes a field with a number; nothing if it is 0.
    @inline(__always)
    mutating func field(_ number: UInt8, _ value: UInt64) {
        guard value != 0 else { return }
        put(number << 3)
        varint(value)
    }

    /// Writes the tag and length of a field whose `count` bytes follow.
    @inline(__always)
    mutating func head(_ number: UInt8, count: Int) {
        put(number << 3 | 2)
        varint(UInt64(count))
    }

    /// Writes a field of bytes, even if there are none.
    mutating func field(_ number: UInt8, _ bytes: UnsafeRawBufferPointer) {
        head(number, count: bytes.count)
        put(bytes)
    }
}

// Messages that are rarely sent are assembled in a buffer.
extension ByteBuffer {
    mutating func append(field number: UInt8, _ value: UInt64) {
        var writer = RawWriter(reserve(Protobuf.size(field: value)))
        writer.field(number, value)
        commit(Protobuf.size(field: value))
    }

    /// Appends a field of bytes, even if there are none.
    mutating func append(field number: UInt8, _ bytes: UnsafeRawBufferPointer) {
        var writer = RawWriter(reserve(Protobuf.size(bytes: bytes.count)))
        writer.field(number, bytes)
        commit(Protobuf.size(bytes: bytes.count))
    }

    /// Appends a field of text; nothing if it is empty.
    mutating func append(field number: UInt8, _ text: String) {
        guard !text.isEmpty else { return }
        append(element: number, text)
    }

    /// Appends a field of text that is repeated or in a oneof, so it is written even if it is empty.
    mutating func append(element number: UInt8, _ text: String) {
        var text = text
        text.withUTF8 { append(field: number, UnsafeRawBufferPointer($0)) }
    }

    /// Appends an embedded message, written by `body`.
    mutating func append(field number: UInt8, _ body: (inout ByteBuffer) -> Void) {
        var inner = ByteBuffer()
        body(&inner)
        append(field: number, inner.readable)
    }
}
