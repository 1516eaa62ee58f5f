// MessageInfo: what the broker reports about a message: over RSocket in its metadata, if requested with `meta=on`; over
// gRPC always.

import Bytes
import RSocket

/// The position of a message in its topic. Over RSocket, the entry `application/vnd.forebay.message`.
public struct MessageInfo: Equatable, Sendable {
    /// The topic's epoch; sequences of different epochs are unrelated.
    public var epoch: UInt64
    public var sequence: UInt64
    /// Nanoseconds since 1970 by the broker's clock.
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

    /// Finds the entry in composite metadata; nil if there is none or the metadata is malformed.
    public init?(metadata: UnsafeRawBufferPointer) {
        var entries = CompositeMetadata.Iterator(metadata)
        while let entry = try? entries.next() {
            guard Self.isInfo(entry), entry.bytes.count >= 32 else { continue }
            epoch = entry.bytes.bigEndian(at: 0)
            sequence = entry.bytes.bigEndian(at: 8)
            timestamp = entry.bytes.bigEndian(at: 16)
            dropped = entry.bytes.bigEndian(at: 24)
            return
        }
        return nil
    }

    /// The entries of composite metadata without the broker's own.
    public static func remove(from metadata: UnsafeRawBufferPointer) -> [UInt8] {
        var entries = CompositeMetadata.Iterator(metadata)
        var others: [UInt8] = []
        while let entry = try? entries.next() {
            if !isInfo(entry) { others += metadata[entry.range] }
        }
        return others
    }

    /// Whether an entry is the broker's, not one of the publisher's.
    public static func isInfo(_ entry: CompositeMetadata.Entry) -> Bool {
        guard entry.id == nil, entry.name.count == mime.utf8CodeUnitCount else { return false }
        for index in entry.name.indices where entry.name[index] != mime.utf8Start[index] { return false }
        return true
    }
}
