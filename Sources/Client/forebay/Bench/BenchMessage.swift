// BenchMessage: the header of `bench`'s messages, with which a subscriber notices missing ones.
//
//     4 bytes      4 bytes      8 bytes
//     run's tag    publisher    number, from 0      then anything
//
// Publishers and subscribers are in one process, so the byte order is the machine's. A message with `marker` instead of
// a publisher is a mark, and its number is a round. Marks of a round are published until every subscriber has seen one;
// by then, each subscriber has seen, or lost, everything published before. A mark is as large as a message, if that has
// room for the header, because the broker sizes its first grants by the messages it has seen.

import Bytes

enum BenchMessage {
    static let headerSize = 16
    static let marker = UInt32.max

    struct Header {
        var publisher: UInt32
        var number: UInt64
    }

    /// Writes a header to the first 16 bytes of `payload`.
    static func write(_ header: Header, tag: UInt32, to payload: UnsafeMutableRawBufferPointer) {
        payload.storeBytes(of: tag, as: UInt32.self)
        payload.storeBytes(of: header.publisher, toByteOffset: 4, as: UInt32.self)
        payload.storeBytes(of: header.number, toByteOffset: 8, as: UInt64.self)
    }

    /// A message with room for a header, which is not yet filled in.
    static func blank(size: Int) -> ByteBuffer {
        var payload = ByteBuffer(minimumCapacity: size)
        payload.append([UInt8](repeating: UInt8(ascii: "x"), count: size))
        return payload
    }

    static func mark(_ round: UInt64, _ settings: BenchSettings) -> ByteBuffer {
        var payload = blank(size: max(settings.size, headerSize))
        payload.withMutableReadable { write(Header(publisher: marker, number: round), tag: settings.tag, to: $0) }
        return payload
    }

    /// The header; nil if the message does not belong to this run.
    static func read(_ payload: UnsafeRawBufferPointer, tag: UInt32) -> Header? {
        guard payload.count >= headerSize, payload.loadUnaligned(as: UInt32.self) == tag else { return nil }
        return Header(
            publisher: payload.loadUnaligned(fromByteOffset: 4, as: UInt32.self),
            number: payload.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }
}
