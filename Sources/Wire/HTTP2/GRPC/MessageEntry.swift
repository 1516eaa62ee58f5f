// The log entry of a message for gRPC: one `messages` field of a SubscribeResponse, tag and length included. Since a
// repeated field is its elements one after the other, a response is a range of such entries and a tail; a message is
// framed once for all of a topic's gRPC subscribers.
//
//     0A len | 08 sequence | 12 len payload | 18 timestamp_ns | [22 len content_type] | [2A len header]…

import Bytes
import RSocket

/// Frames a message: `size` tells the room that it takes, then it is written, at once or around its payload.
public struct MessageEntry {
    public let sequence: UInt64
    /// ns since 1970 UTC.
    public let timestamp: Int64
    /// Bytes of the payload; 16 MiB at most, as for RSocket.
    public let payloadCount: Int
    private let metadata: UnsafeRawBufferPointer
    /// Bytes of content type and headers.
    private let carriedSize: Int
    /// Bytes of the message without tag and length.
    private let messageSize: Int

    /// - Parameter metadata: the publisher's metadata as the log keeps it, composite; read again by `writeTail`.
    public init(sequence: UInt64, timestamp: Int64, payloadCount: Int, metadata: UnsafeRawBufferPointer) {
        self.sequence = sequence
        self.timestamp = timestamp
        self.payloadCount = payloadCount
        self.metadata = metadata
        carriedSize = metadata.isEmpty ? 0 : MessageEntry.carriedSize(metadata)
        messageSize =
            Protobuf.size(field: sequence) + (payloadCount == 0 ? 0 : Protobuf.size(bytes: payloadCount))
            + Protobuf.size(field: UInt64(bitPattern: timestamp)) + carriedSize
    }

    /// Bytes of the whole entry.
    public var size: Int { Protobuf.size(bytes: messageSize) }

    /// Writes what stands before the payload.
    ///
    /// - Returns: where the payload goes.
    @discardableResult
    public func writeHead(to target: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        var writer = RawWriter(target)
        writer.head(1, count: messageSize)
        writer.field(1, sequence)
        if payloadCount > 0 { writer.head(2, count: payloadCount) }
        return writer.end
    }

    /// Writes what stands behind the payload.
    ///
    /// - Parameter target: right behind the payload.
    /// - Returns: the entry's end, `size` bytes behind its beginning.
    @discardableResult
    public func writeTail(to target: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer {
        var writer = RawWriter(target)
        writer.field(3, UInt64(bitPattern: timestamp))
        if carriedSize > 0 { MessageEntry.writeCarried(metadata, to: &writer) }
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

/// What stands behind the entries of a SubscribeResponse.
public struct SubscribeTail: Equatable, Sendable {
    /// What unbounded credit is told as: the figure that asks for it.
    public static let unbounded: UInt64 = (1 << 31) - 1

    /// Credit left after the response's messages; `unbounded` if it is.
    public var outstandingCredit: UInt64
    public var epoch: UInt64
    /// Messages lost since the response before.
    public var dropped: UInt64

    public init(outstandingCredit: UInt64, epoch: UInt64, dropped: UInt64) {
        self.outstandingCredit = outstandingCredit
        self.epoch = epoch
        self.dropped = dropped
    }

    /// Bytes of the tail, at most `largest`.
    public var size: Int {
        Protobuf.size(field: outstandingCredit) + Protobuf.size(field: epoch) + Protobuf.size(field: dropped)
    }

    /// Three fields of a tag and ten bytes.
    public static let largest = 33

    /// Writes `size` bytes.
    public func write(to target: UnsafeMutableRawPointer) {
        var writer = RawWriter(target)
        writer.field(2, outstandingCredit)
        writer.field(3, epoch)
        writer.field(4, dropped)
    }

    /// Writes the prefix of a response of `entries` bytes of entries and this tail; 5 bytes.
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
