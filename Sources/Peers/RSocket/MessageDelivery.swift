// Delivers messages to subscribers over RSocket. Frames that already have the subscriber's stream id are sent from the
// log's memory. Frames that need another stream id are referenced as well, and copied once on the way to the socket. A
// message that needs metadata is copied at once if it is small; otherwise its metadata is written for the subscriber
// and its payload is sent from the log.

import Bytes
import Replay
import RSocket

final class MessageDelivery: ShardPart {
    let connections: ConnectionTable

    init(_ context: ShardContext, _ connections: ConnectionTable) {
        self.connections = connections
        super.init(context)
    }

    /// Like `Output.worthASegment`, for a message with metadata made for its subscriber, which takes several segments.
    static let worthSegments = 4 << 10

    /// Returns whether there is more to hand over once the output has space.
    func handOver(_ subscriber: Subscriber, quantum: Int) -> Bool {
        let connection = subscriber.connection
        let start = connection.output.count
        while let range = subscriber.deliverable() {
            let room = connection.output.room(limits.output)
            guard room > 0, connection.isOpen, connection.output.count - start < quantum else { return true }
            let piece = subscriber.view.log.piece(of: range.lower)
            let position = range.lower - piece.first
            let most = Swift.min(range.count, piece.visible - position)
            let chunk = (consume piece).chunk
            let count: Int
            if subscriber.match != nil {
                count = subscriber.view.topicEntry.withUnsafeBytes { topic in
                    handOverWithMetadata(chunk, position, most, room: room, to: subscriber, topic: topic)
                }
            } else if subscriber.options.meta {
                count = handOverWithMetadata(chunk, position, most, room: room, to: subscriber)
            } else {
                count = handOverFrames(consume chunk, position, most, room: room, to: subscriber)
            }
            guard count > 0 else { return true }
            subscriber.handOver(count, of: range)
            counters.delivered &+= UInt64(count)
            subscriber.view.delivered &+= UInt64(count)
            connections.flush(connection)
            // Nothing can be left; at low rates this saves another check.
            if count == range.count, range.upper == subscriber.cursor.knownEnd { return false }
        }
        return false
    }

    /// Hands over up to `most` messages from `position` as they are framed. Returns how many fitted.
    private func handOverFrames(
        _ chunk: consuming Chunk, _ position: Int, _ most: Int, room: Int,
        to subscriber: Subscriber
    ) -> Int {
        let connection = subscriber.connection
        let first = chunk.entry(position)
        var count = chunk.hasMetadata ? 1 : most
        var size = MessageDelivery.size(chunk, first, position, count)
        if size > room, count > 1 {
            count = MessageDelivery.fitting(chunk, first, position, count, room: room)
            size = MessageDelivery.size(chunk, first, position, count)
        }
        // A message larger than the entire space is sent alone.
        guard size <= room || connection.output.count == 0 else { return 0 }
        if connection.output.kept != nil { connection.output.passIfShort(size) }
        let bytes = chunk.bytes(Int(first.offset), size)
        let isApart = chunk.hasMetadata && size < Output.worthASegment
        if isApart {
            connection.output.copy(bytes, stream: subscriber.stream)
        } else {
            connection.output.append(bytes, of: chunk, stream: subscriber.stream)
        }
        return count
    }

    /// Bytes of the frames of `count` messages, which are contiguous in the chunk.
    @inline(__always)
    private static func size(_ chunk: Chunk, _ first: Chunk.Entry, _ position: Int, _ count: Int) -> Int {
        if count == 1 { return Int(first.framed) }
        let last = chunk.entry(position + count - 1)
        return Int(last.offset) + Int(last.framed) - Int(first.offset)
    }

    /// How many messages from `position`, at least one, fit into `room`.
    private static func fitting(_ chunk: Chunk, _ first: Chunk.Entry, _ position: Int, _ most: Int, room: Int) -> Int {
        var low = 1
        var high = most
        while low < high {
            let middle = (low + high + 1) / 2
            if size(chunk, first, position, middle) <= room { low = middle } else { high = middle - 1 }
        }
        return low
    }

    /// Like `handOverFrames`, with metadata ahead of each message.
    /// - Parameter topic: the entry with the topic's name; empty unless the subscription is to a pattern.
    private func handOverWithMetadata(
        _ chunk: Chunk, _ position: Int, _ most: Int, room: Int, to subscriber: Subscriber,
        topic: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) -> Int {
        let connection = subscriber.connection
        var count = 0
        var left = room
        var dropped = subscriber.cursor.dropped(before: chunk.first.advanced(by: position))
        while count < most, left > 0 {
            let entry = chunk.entry(position + count)
            let size = MessageMetadata.framed(
                payload: Int(entry.payload), carried: Int(entry.metadata), topic: topic.count)
            guard size <= left || connection.output.count == 0 else { break }
            if connection.output.kept != nil { connection.output.passIfShort(size) }
            let info = MessageMetadata(
                epoch: subscriber.view.epoch, sequence: chunk.first.advanced(by: position + count),
                timestamp: entry.timestamp, droppedBefore: dropped, topic: topic)
            if size >= (pool.isShort ? Output.worthASegment : MessageDelivery.worthSegments),
                connection.output.keeping == nil
            {
                info.share(chunk, entry, stream: subscriber.stream, in: &connection.output)
            } else {
                info.write(chunk, entry, stream: subscriber.stream, to: connection.output.reserve(size))
            }
            dropped = 0
            left -= size
            count += 1
        }
        return count
    }
}
