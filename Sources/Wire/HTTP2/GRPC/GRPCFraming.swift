// GRPCFraming: writes gRPC's framing. Every message follows one byte that says whether it is compressed, and four bytes
// of length (gRPC over HTTP/2, "Length-Prefixed-Message"). GRPCDeframer parses it.

import Bytes

/// The prefix of a message. Our messages are never compressed.
public enum GRPCFraming {
    /// Bytes of the prefix.
    public static let prefix = 5

    /// Writes the prefix of a message of `count` bytes, at most 2³²−1, at `target`.
    @inline(__always)
    public static func writePrefix(count: Int, to target: UnsafeMutableRawPointer) {
        target.storeBytes(of: 0, as: UInt8.self)
        target.storeBytes(of: UInt32(count).bigEndian, toByteOffset: 1, as: UInt32.self)
    }

    /// Appends a prefix and the message that `body` appends.
    public static func append(to out: inout ByteBuffer, _ body: (inout ByteBuffer) -> Void) {
        let start = out.count
        _ = out.reserve(prefix)
        out.commit(prefix)
        body(&out)
        let count = out.count - start - prefix
        out.withMutableReadable { writePrefix(count: count, to: $0.baseAddress! + start) }
    }

    /// Appends a message of `size` bytes, written by `body`.
    @inline(__always)
    static func append(size: Int, to out: inout ByteBuffer, _ body: (inout RawWriter) -> Void) {
        let target = out.reserve(prefix + size)
        writePrefix(count: size, to: target)
        var writer = RawWriter(target + prefix)
        body(&writer)
        out.commit(prefix + size)
    }

    /// Appends a message with numbers in its fields 1 to 4.
    static func append(
        numbers one: UInt64, _ two: UInt64, _ three: UInt64 = 0, _ four: UInt64 = 0, to out: inout ByteBuffer
    ) {
        let size =
            Protobuf.size(field: one) + Protobuf.size(field: two) + Protobuf.size(field: three)
            + Protobuf.size(field: four)
        append(size: size, to: &out) {
            $0.field(1, one)
            $0.field(2, two)
            $0.field(3, three)
            $0.field(4, four)
        }
    }
}
