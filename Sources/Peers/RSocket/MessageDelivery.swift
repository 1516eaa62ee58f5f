// Messages as a subscriber over RSocket gets them. Where they stand framed for its stream they are sent from the log's
// memory. For another stream they are named alike, and copied once on their way to the socket; what needs metadata is
// copied at once if it is small, or else has its metadata written for the subscriber and its payload sent from the log.

import Bytes
import Replay
import RSocket

final class MessageDelivery: ShardPart {
    let connections: ConnectionTable

    init(_ context: ShardContext, _ connections: ConnectionTable) {
        self.connections = connections
        super.init(context)
    }

    /// As `Output.worthASegment`, of a message that goes with metadata made for its subscriber, and so in several.
    static let worthSegments = 4 << 10

    /// Returns whether there is more to hand over once the output has room.
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
            if subscriber.options.meta {
                count = handOverWithMetadata(chunk, position, most, room: room, to: subscriber)
            } else {
                count = handOverFrames(consume chunk, position, most, room: room, to: subscriber)
            }
            guard count > 0 else { return true }
            subscriber.handOver(count, of: range)
            counters.delivered &+= UInt64(count)
            subscriber.view.delivered &+= UInt64(count)
            connections.flush(connection)
            // Nothing can be left: at low rates that is not asked for again.
            if count == range.count, range.upper == subscriber.cursor.told { return false }
        }
        return false
    }

    /// Hands over up to `most` messages from `position` on as they are framed; returns how many had room.
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
        // One message larger than all the room goes alone.
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

    /// Bytes of the frames of `count` messages, in a chunk where they lie one behind the other.
    @inline(__always)
    private static func size(_ chunk: Chunk, _ first: Chunk.Entry, _ position: Int, _ count: Int) -> Int {
        if count == 1 { return Int(first.framed) }
        let last = chunk.entry(position + count - 1)
        return Int(last.offset) + Int(last.framed) - Int(first.offset)
    }

    /// How many messages from `position` on, at least one, fit into `room`.
    private static func fitting(_ chunk: Chunk, _ first: Chunk.Entry, _ position: Int, _ most: Int, room: Int) -> Int {
        var low = 1
        var high = most
        while low < high {
            let middle = (low + high + 1) / 2
            if size(chunk, first, position, middle) <= room { low = middle } else { high = middle - 1 }
        }
        return low
    }

    /// As `handOverFrames`, each message with its metadata before it.
    private func handOverWithMetadata(
        _ chunk: Chunk, _ position: Int, _ most: Int, room: Int,
        to subscriber: Subscriber
    ) -> Int {
        let connection = subscriber.connection
        var count = 0
        var left = room
        var dropped = subscriber.cursor.dropped(before: chunk.first.advanced(by: position))
        while count < most, left > 0 {
            let entry = chunk.entry(position + count)
            let size = MessageMetadata.framed(payload: Int(entry.payload), carried: Int(entry.metadata))
            guard size <= left || connection.output.count == 0 else { break }
            if connection.output.kept != nil { connection.output.passIfShort(size) }
            let info = MessageMetadata(
                epoch: subscriber.view.epoch, sequence: chunk.first.advanced(by: position + count),
                timestamp: entry.timestamp, droppedBefore: dropped)
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
