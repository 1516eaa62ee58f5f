// Protobuf's bytes, as far as the tests write them: by hand, so that the product's own writer is not taken for granted.

public enum Proto {
    public static func varint(_ value: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = value
        while rest >= 128 {
            bytes.append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    public static func field(_ number: UInt64, _ value: UInt64) -> [UInt8] { varint(number << 3) + varint(value) }
    public static func field(_ number: UInt64, _ bytes: [UInt8]) -> [UInt8] {
        varint(number << 3 | 2) + varint(UInt64(bytes.count)) + bytes
    }
    public static func field(_ number: UInt64, _ text: String) -> [UInt8] { field(number, Array(text.utf8)) }
}

/// A message behind gRPC's prefix, not compressed.
public func framed(_ message: [UInt8]) -> [UInt8] { [0] + u32(UInt32(message.count)) + message }
