// MessageInfo: what the broker reports about a message: over RSocket in its metadata, if requested with `meta=on`; over
// gRPC always.

import Bytes
import RSocket

/// The position of a message in its topic. Over RSocket, the entry `application/vnd.forebay.message`, which the entry
/// `application/vnd.forebay.topic` follows in a subscription to a pattern.
public struct MessageInfo: Equatable, Sendable {
    /// The topic's epoch; sequences of different epochs are unrelated.
    public var epoch: UInt64
    public var sequence: UInt64
    /// Nanoseconds since 1970 by the broker's clock.
    public var timestamp: Int64
    /// How many messages this subscription lost just before this one.
    public var dropped: UInt64
    /// The name of the message's topic; nil unless the subscription is to a pattern.
    public var topic: String?

    public static let mime: StaticString = "application/vnd.forebay.message"
    public static let topicMime: StaticString = "application/vnd.forebay.topic"

    public init(epoch: UInt64, sequence: UInt64, timestamp: Int64, dropped: UInt64, topic: String? = nil) {
        self.epoch = epoch
        self.sequence = sequence
        self.timestamp = timestamp
        self.dropped = dropped
        self.topic = topic
    }

    /// Finds the entry in composite metadata; nil if there is none or the metadata is malformed.
    /// - Parameter ofPattern: whether the subscription is to a pattern. If so, the topic is read from the entry that
    ///   follows directly. Elsewhere such an entry is a publisher's.
    public init?(metadata: UnsafeRawBufferPointer, ofPattern: Bool = false) {
        var entries = CompositeMetadata.Iterator(metadata)
        while let entry = try? entries.next() {
            guard Self.isInfo(entry), entry.bytes.count >= 32 else { continue }
            epoch = entry.bytes.bigEndian(at: 0)
            sequence = entry.bytes.bigEndian(at: 8)
            timestamp = entry.bytes.bigEndian(at: 16)
            dropped = entry.bytes.bigEndian(at: 24)
            if ofPattern, let next = try? entries.next(), Self.isTopic(next) {
                topic = String(validating: next.bytes, as: UTF8.self)
            }
            return
        }
        return nil
    }

    /// The entries of a message's composite metadata without the broker's own, of which this was read.
    public func removeOwn(from metadata: UnsafeRawBufferPointer) -> [UInt8] {
        var entries = CompositeMetadata.Iterator(metadata)
        var others: [UInt8] = []
        var hasFound = false
        // The topic's entry is the one that follows the first entry with the position.
        var mayBeTopic = false
        while let entry = try? entries.next() {
            let isOwn = Self.isInfo(entry) || mayBeTopic && topic != nil && Self.isTopic(entry)
            if !isOwn { others += metadata[entry.range] }
            mayBeTopic = !hasFound && Self.isInfo(entry) && entry.bytes.count >= 32
            hasFound = hasFound || mayBeTopic
        }
        return others
    }

    /// Whether an entry is the broker's, not one of the publisher's.
    static func isInfo(_ entry: CompositeMetadata.Entry) -> Bool { isEntry(entry, mime) }

    private static func isTopic(_ entry: CompositeMetadata.Entry) -> Bool { isEntry(entry, topicMime) }

    private static func isEntry(_ entry: CompositeMetadata.Entry, _ mime: StaticString) -> Bool {
        guard entry.id == nil, entry.name.count == mime.utf8CodeUnitCount else { return false }
        for index in entry.name.indices where entry.name[index] != mime.utf8Start[index] { return false }
        return true
    }
}
