// ProtobufReader: reads protobuf's wire format in place. A message is a sequence of fields, each a tag (number and wire
// type) and a value (protobuf.dev, "Encoding"). Lengths are checked against the bytes available; nothing is copied.

import Bytes

/// What is wrong with the bytes of a message. Such an error ends the stream on which the bytes arrived.
public enum ProtobufError: Error, Equatable, Sendable {
    /// The message ends within a tag, number or value.
    case truncated
    /// A number has more than 10 bytes or 64 bits.
    case overlongNumber
    /// A tag with field number 0 or above 2²⁹−1, or with an undefined wire type.
    case badTag
    /// A group end without a start, or with another field's number.
    case strayGroupEnd
    /// Groups nested deeper than `ProtobufReader.deepestGroup`.
    case tooDeep

    /// The error message for the sender.
    public var sentence: String {
        switch self {
        case .truncated: "ends within a field"
        case .overlongNumber: "has an integer of more than 64 bits"
        case .badTag: "has a tag with an invalid field number or wire type"
        case .strayGroupEnd: "ends a group that it did not begin"
        case .tooDeep: "nests groups more than \(ProtobufReader.deepestGroup) deep"
        }
    }
}

/// Iterates over the fields of one message, in encoded order.
public struct ProtobufReader {
    /// The deepest nesting of groups, the same as in other implementations.
    public static let deepestGroup = 100

    /// A field's value as encoded. Groups have no value: none of our messages has one, so they are skipped.
    public enum Value {
        case varint(UInt64)
        case fixed64(UInt64)
        /// Bytes, text or an embedded message, in place.
        case bytes(UnsafeRawBufferPointer)
        case fixed32(UInt32)
        case group
    }

    private let message: UnsafeRawBufferPointer
    private var offset = 0

    public init(_ message: UnsafeRawBufferPointer) { self.message = message }

    /// The next field; nil at the message's end.
    @inline(__always)
    public mutating func next() throws(ProtobufError) -> (number: UInt32, value: Value)? {
        guard offset < message.count else { return nil }
        let (number, type) = try tag()
        return (number, try value(number, type, depth: 0))
    }

    private mutating func tag() throws(ProtobufError) -> (number: UInt32, type: UInt8) {
        guard let tag = UInt32(exactly: try varint()), tag >> 3 != 0 else { throw .badTag }
        return (tag >> 3, UInt8(tag & 7))
    }

    private mutating func value(_ number: UInt32, _ type: UInt8, depth: Int) throws(ProtobufError) -> Value {
        switch type {
        case 0: return .varint(try varint())
        case 1: return .fixed64(UInt64(littleEndianBytes: try take(8)))
        case 2:
            let count = try varint()
            guard count <= UInt64(message.count - offset) else { throw .truncated }
            return .bytes(try take(Int(count)))
        case 3:
            try skipGroup(number, depth: depth + 1)
            return .group
        case 4: throw .strayGroupEnd
        case 5: return .fixed32(UInt32(truncatingIfNeeded: UInt64(littleEndianBytes: try take(4))))
        default: throw .badTag
        }
    }

    private mutating func skipGroup(_ group: UInt32, depth: Int) throws(ProtobufError) {
        guard depth <= ProtobufReader.deepestGroup else { throw .tooDeep }
        while true {
            let (number, type) = try tag()
            if type == 4 {
                guard number == group else { throw .strayGroupEnd }
                return
            }
            _ = try value(number, type, depth: depth)
        }
    }

    private mutating func take(_ count: Int) throws(ProtobufError) -> UnsafeRawBufferPointer {
        guard count <= message.count - offset else { throw .truncated }
        defer { offset += count }
        return message.slice(offset..<offset + count)
    }

    @inline(__always)
    private mutating func varint() throws(ProtobufError) -> UInt64 {
        if offset < message.count, message[offset] < 0x80 {
            defer { offset += 1 }
            return UInt64(message[offset])
        }
        return try longVarint()
    }

    private mutating func longVarint() throws(ProtobufError) -> UInt64 {
        var value: UInt64 = 0
        for index in 0..<10 {
            guard offset < message.count else { throw .truncated }
            let byte = message[offset]
            offset += 1
            // The tenth byte has room for one bit.
            if index == 9, byte > 1 { throw .overlongNumber }
            value |= UInt64(byte & 0x7f) << (7 * UInt64(index))
            if byte < 0x80 { return value }
        }
        throw .overlongNumber
    }
}

extension UInt64 {
    /// The number encoded by at most 8 bytes, lowest first.
    fileprivate init(littleEndianBytes bytes: UnsafeRawBufferPointer) {
        self = 0
        for index in 0..<bytes.count { self |= UInt64(bytes[index]) << (8 * UInt64(index)) }
    }
}
