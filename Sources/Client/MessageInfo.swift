// MessageInfo: what the broker tells of a message in its metadata when it was asked with `meta=on`.

import Bytes

/// Where a message stands in its topic. From the entry `application/vnd.forebay.message`.
public struct MessageInfo: Equatable, Sendable {
    /// The life of the topic; sequences of different epochs have nothing to do with each other.
    public var epoch: UInt64
    public var sequence: UInt64
    /// Nanoseconds since 1970, as the broker's clock said.
    public var timestamp: Int64
    /// How many messages this subscription lost just before this one.
    public var dropped: UInt64

    public static let mime: StaticString = "application/vnd.forebay.message"

    public init(epoch: UInt64, sequence: UInt64, timestamp: Int64, dropped: UInt64) {
        self.epoch = epoch
        self.sequence = sequence
        self.timestamp = timestamp
        self.dropped = dropped
    }

    /// Finds the entry in composite metadata; nil when there is none, or the bytes are no composite metadata.
    public init?(metadata: UnsafeRawBufferPointer) {
        var entries = MetadataEntries(metadata)
        while let entry = entries.next() {
            guard entry.isNamed(Self.mime), entry.content.count >= 32 else { continue }
            epoch = entry.content.bigEndian(at: 0)
            sequence = entry.content.bigEndian(at: 8)
            timestamp = entry.content.bigEndian(at: 16)
            dropped = entry.content.bigEndian(at: 24)
            return
        }
        return nil
    }
}

/// Walks the entries of composite metadata, and stops at the first that does not fit into the bytes.
public struct MetadataEntries {
    public struct Entry {
        /// A well-known id, or nil when the type is spelled out in `name`.
        public let id: UInt8?
        public let name: UnsafeRawBufferPointer
        public let content: UnsafeRawBufferPointer

        public func isNamed(_ mime: StaticString) -> Bool {
            guard id == nil, name.count == mime.utf8CodeUnitCount else { return false }
            for index in name.indices where name[index] != mime.utf8Start[index] { return false }
            return true
        }
    }

    private let bytes: UnsafeRawBufferPointer
    private var index = 0

    public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    public mutating func next() -> Entry? {
        guard index < bytes.count else { return nil }
        let head = bytes[index]
        var place = index + 1
        // The low seven bits are an id, or the length of the name less one.
        let nameLength = head & 0x80 != 0 ? 0 : Int(head) + 1
        guard bytes.count - place >= nameLength + 3 else { return nil }
        let name = bytes.slice(place..<place + nameLength)
        place += nameLength
        let length = bytes.u24(at: place)
        place += 3
        guard bytes.count - place >= length else { return nil }
        index = place + length
        return Entry(id: head & 0x80 != 0 ? head & 0x7f : nil, name: name, content: bytes.slice(place..<index))
    }
}
