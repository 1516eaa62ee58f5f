// MessageEntry: a message in the log in gRPC's form: one `messages` field of a SubscribeResponse, including tag and
// length. A repeated field is just its elements one after another, so a response is a range of such entries and a tail,
// and a message is encoded once for all gRPC subscribers of a topic.
//
//   0A len | 08 sequence | 12 len payload | 18 timestamp_ns | [22 len content_type] | [2A len header]… | [32 len topic]

import Bytes
import ForebayWire
import RSocket

/// Encodes a message: `size` is the space needed; then write it at once, or its head and tail around the payload.
public struct MessageEntry {
    public let sequence: UInt64
    /// ns since 1970 UTC.
    public let timestamp: Int64
    /// Bytes of the payload; at most 16 MiB, as for RSocket.
    public let payloadCount: Int
    private let metadata: UnsafeRawBufferPointer
    /// The topic's name; empty if the message does not name it.
    private let topic: UnsafeRawBufferPointer
    /// Bytes of content type and headers.
    private let carriedSize: Int
    /// Bytes of the message without tag and length.
    private let messageSize: Int

    /// - Parameters:
    ///   - metadata: the publisher's composite metadata as stored in the log; `writeTail` reads it again.
    ///   - topic: the topic's name, for a subscription to a pattern; empty for others. `writeTail` reads it again.
    public init(
        sequence: UInt64, timestamp: Int64, payloadCount: Int, metadata: UnsafeRawBufferPointer,
        topic: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        self.sequence = sequence
        self.timestamp = timestamp
        self.payloadCount = payloadCount
        self.metadata = metadata
        self.topic = topic
        carriedSize = metadata.isEmpty ? 0 : MessageEntry.carriedSize(metadata)
        messageSize =
            Protobuf.size(field: sequence) + (payloadCount == 0 ? 0 : Protobuf.size(bytes: payloadCount))
            + Protobuf.size(field: UInt64(bitPattern: timestamp)) + carriedSize
            + (topic.isEmpty ? 0 : Protobuf.size(bytes: topic.count))
    }

    /// Bytes of the whole entry.
    public var size: Int { Protobuf.size(bytes: messageSize) }

    /// Writes what precedes the payload.
    ///
    /// - Returns: the place to write the payload to.
    @discardableResult
    public func writeHead(to target: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        var writer = RawWriter(target)
        writer.head(1, count: messageSize)
        writer.field(1, sequence)
        if payloadCount > 0 { writer.head(2, count: payloadCount) }
        return writer.end
    }

    /// Writes what follows the payload.
    ///
    /// - Parameter target: directly after the payload.
    /// - Returns: the entry's end, `size` bytes after its beginning.
    @discardableResult
    public func writeTail(to target: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        var writer = RawWriter(target)
        writer.field(3, UInt64(bitPattern: timestamp))
        if carriedSize > 0 { MessageEntry.writeCarried(metadata, to: &writer) }
        if !topic.isEmpty { writer.field(6, topic) }
        return writer.end
    }

    /// Writes the whole entry; `target` has room for `size` bytes.
    public func write(_ payload: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer) {
        precondition(payload.count == payloadCount)
        var writer = RawWriter(writeHead(to: target))
        writer.put(payload)
        writeTail(to: writer.end)
    }

    private static func carriedSize(_ metadata: UnsafeRawBufferPointer) -> Int {
        var items = CarriedItems(metadata)
        var size = 0
        while let item = items.next() {
            switch item {
            case .contentType(let type): size += Protobuf.size(bytes: type.count)
            case .header(let header): size += Protobuf.size(header)
            }
        }
        return size
    }

    private static func writeCarried(_ metadata: UnsafeRawBufferPointer, to writer: inout RawWriter) {
        var items = CarriedItems(metadata)
        while let item = items.next() {
            switch item {
            case .contentType(let type): writer.field(4, type)
            case .header(let header): writer.field(5, header)
            }
        }
    }
}

/// What follows the entries of a SubscribeResponse.
public struct SubscribeTail: Equatable, Sendable {
    /// The number sent for unbounded credit, and the one that requests it.
    public static let unbounded: UInt64 = (1 << 31) - 1

    /// Credit left after the response's messages; `unbounded` if it has no bound.
    public var outstandingCredit: UInt64
    public var epoch: UInt64
    /// Messages lost since the previous response.
    public var dropped: UInt64
    /// Where the subscription begins, in a first response if the call requested it; 0 in all others.
    public var nextSequence: UInt64

    public init(outstandingCredit: UInt64, epoch: UInt64, dropped: UInt64, nextSequence: UInt64 = 0) {
        self.outstandingCredit = outstandingCredit
        self.epoch = epoch
        self.dropped = dropped
        self.nextSequence = nextSequence
    }

    /// Bytes of the tail, at most `largest`.
    public var size: Int {
        Protobuf.size(field: outstandingCredit) + Protobuf.size(field: epoch) + Protobuf.size(field: dropped)
            + Protobuf.size(field: nextSequence)
    }

    /// Four fields, each with a tag and ten bytes.
    public static let largest = 44

    /// Writes `size` bytes.
    public func write(to target: UnsafeMutableRawPointer) {
        var writer = RawWriter(target)
        writer.field(2, outstandingCredit)
        writer.field(3, epoch)
        writer.field(4, dropped)
        writer.field(5, nextSequence)
    }

    /// Writes the prefix, 5 bytes, of a response with `entries` bytes of entries and this tail.
    public func writePrefix(entries: Int, to target: UnsafeMutableRawPointer) {
        GRPCFraming.writePrefix(count: entries + size, to: target)
    }

    /// Appends a response without messages.
    public func append(to out: inout ByteBuffer) {
        let target = out.reserve(GRPCFraming.prefix + size)
        writePrefix(entries: 0, to: target)
        write(to: target + GRPCFraming.prefix)
        out.commit(GRPCFraming.prefix + size)
    }
}

extension EndNotice {
    /// Appends a SubscribeResponse without messages, with its prefix.
    /// - Parameter outstandingCredit: as in `SubscribeTail`.
    public func append(outstandingCredit: UInt64, to out: inout ByteBuffer) {
        let tail = SubscribeTail(outstandingCredit: outstandingCredit, epoch: epoch, dropped: dropped)
        let (name, reason) = (Array(topic.utf8), Array((failure ?? "").utf8))
        let inner = Protobuf.size(bytes: name.count) + (reason.isEmpty ? 0 : Protobuf.size(bytes: reason.count))
        let size = tail.size + Protobuf.size(bytes: inner)
        let target = out.reserve(GRPCFraming.prefix + size)
        GRPCFraming.writePrefix(count: size, to: target)
        tail.write(to: target + GRPCFraming.prefix)
        var writer = RawWriter(target + GRPCFraming.prefix + tail.size)
        writer.head(6, count: inner)
        name.withUnsafeBytes { writer.field(1, $0) }
        if !reason.isEmpty { reason.withUnsafeBytes { writer.field(2, $0) } }
        out.commit(GRPCFraming.prefix + size)
    }
}
