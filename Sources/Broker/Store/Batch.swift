// Batch: messages that are stored, checked and read together. A batch is one value of the database, whose key is the
// topic and the first sequence.
//
//      0  version             16  length of the body       40  last timestamp
//      4  CRC32C of all else  20  0                        48  charge before the batch
//      8  CRC32C of 12..<64   24  0                        56  charge after the batch
//     12  count               32  first timestamp          64  body
//
// The first CRC covers the key, the header from byte 8 and the body. Including the key detects a batch that a damaged
// page has moved to another topic. The second CRC lets the header be checked without reading the body.

import Bytes
import CStoreIO

/// Messages to write as one batch.
public protocol BatchSource: Sendable {
    /// The sequence of the first message.
    var first: UInt64 { get }
    /// The number of messages; at least 1.
    var count: Int { get }
    /// Bytes that `writeBody` writes; at most `StoredBatch.mostBytes`.
    var bodySize: Int { get }
    /// Nanoseconds since 1970, like `lastTimestamp`.
    var firstTimestamp: Int64 { get }
    var lastTimestamp: Int64 { get }
    /// The topic's charge before and after these messages.
    var chargedBefore: UInt64 { get }
    var chargedAfter: UInt64 { get }
    /// Writes exactly `bodySize` bytes, on any thread.
    func writeBody(to target: UnsafeMutableRawBufferPointer)
    /// Both as one batch, if `next` follows and the batch is not too large; otherwise nil.
    func joined(with next: any BatchSource) -> (any BatchSource)?
}

extension BatchSource {
    public func joined(with next: any BatchSource) -> (any BatchSource)? { nil }
}

/// Memory that is freed with its last reference.
public final class StoredBody: @unchecked Sendable {
    // Unchecked because a pointer is not Sendable: the memory does not change once `read` returns it.
    let memory: UnsafeMutableRawBufferPointer

    init(count: Int) {
        memory = .allocate(byteCount: count, alignment: 16)
    }

    deinit { memory.deallocate() }

    /// The bytes, valid as long as this object.
    public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(memory) }
    public var count: Int { memory.count }
}

/// A batch read from the store, whose CRC is right.
public struct StoredBatch: Sendable {
    public var first: UInt64
    public var count: Int
    public var firstTimestamp: Int64
    public var lastTimestamp: Int64
    public var chargedBefore: UInt64
    public var chargedAfter: UInt64
    public var body: StoredBody

    /// The sequence after the last message.
    public var end: UInt64 { first + UInt64(count) }

    /// Maximum size of a body: 1 GiB. LMDB's values have less than 4 GiB.
    public static let mostBytes = 1 << 30
}

/// The header of a batch.
struct BatchHeader: Equatable {
    var count: UInt32
    var bodySize: UInt32
    var firstTimestamp: Int64
    var lastTimestamp: Int64
    var chargedBefore: UInt64
    var chargedAfter: UInt64
    /// The CRC of everything, as found or as computed.
    var crc: UInt32 = 0

    static let size = 64
    private static let version: UInt32 = 1

    init(_ source: some BatchSource) {
        precondition(source.count > 0 && source.bodySize >= 0 && source.bodySize <= StoredBatch.mostBytes)
        count = UInt32(source.count)
        bodySize = UInt32(source.bodySize)
        firstTimestamp = source.firstTimestamp
        lastTimestamp = source.lastTimestamp
        chargedBefore = source.chargedBefore
        chargedAfter = source.chargedAfter
    }

    /// Nil if the bytes are not an intact header.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= BatchHeader.size, bytes.bigEndian(at: 0) == BatchHeader.version,
            bytes.bigEndian(at: 8) == BatchHeader.crc(bytes.slice(12..<BatchHeader.size))
        else { return nil }
        crc = bytes.bigEndian(at: 4)
        count = bytes.bigEndian(at: 12)
        bodySize = bytes.bigEndian(at: 16)
        firstTimestamp = bytes.bigEndian(at: 32)
        lastTimestamp = bytes.bigEndian(at: 40)
        chargedBefore = bytes.bigEndian(at: 48)
        chargedAfter = bytes.bigEndian(at: 56)
        guard count > 0 else { return nil }
    }

    /// Writes the header in front of the body that `value` already holds.
    func write(to value: UnsafeMutableRawBufferPointer, topic: TopicID, first: UInt64) {
        func put<T: FixedWidthInteger>(_ field: T, _ offset: Int) {
            value.storeBytes(of: field.bigEndian, toByteOffset: offset, as: T.self)
        }
        put(BatchHeader.version, 0)
        put(count, 12)
        put(bodySize, 16)
        put(UInt64(0), 20)
        put(UInt32(0), 28)
        put(firstTimestamp, 32)
        put(lastTimestamp, 40)
        put(chargedBefore, 48)
        put(chargedAfter, 56)
        let bytes = UnsafeRawBufferPointer(value)
        put(BatchHeader.crc(bytes.slice(12..<BatchHeader.size)), 8)
        put(BatchHeader.crc(bytes, topic: topic, first: first), 4)
    }

    /// The CRC of a batch's key, of its header from byte 8, and of its body.
    static func crc(_ value: UnsafeRawBufferPointer, topic: TopicID, first: UInt64) -> UInt32 {
        let body = value.slice(size..<value.count)
        return crc(of: value.slice(0..<size), body, topic: topic, first: first)
    }

    static func crc(
        of header: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer, topic: TopicID, first: UInt64
    ) -> UInt32 {
        let key = withUnsafeBytes(of: (topic.value.bigEndian, first.bigEndian)) { crc($0) }
        return crc(body, after: crc(header.slice(8..<size), after: key))
    }

    private static func crc(_ bytes: UnsafeRawBufferPointer, after: UInt32 = 0) -> UInt32 {
        fb_store_crc(after, bytes.baseAddress, bytes.count)
    }
}
