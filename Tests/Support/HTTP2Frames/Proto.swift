// Protobuf encoding for tests, by hand, so that they do not rely on the product's own writer.

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

/// An uncompressed message with gRPC's prefix.
public func framed(_ message: [UInt8]) -> [UInt8] { [0] + u32(UInt32(message.count)) + message }
