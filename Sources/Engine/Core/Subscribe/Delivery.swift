// Delivery: messages go from the log to a subscriber's connection, as far as its credit and the connection's output
// allow. Where they stand framed for its stream they are sent from the log's memory. For another stream they are named
// alike, and copied once on their way to the socket; what needs metadata is copied at once if it is small, or else has
// its metadata written for the subscriber and its payload sent from the log.

import Bytes
import Replay

extension Shard {
    /// Bytes that one subscription is given at a time while others of its connection wait for output too.
    static let subscriptionQuantum = 64 << 10

    /// As `Output.worthASegment`, of a message that goes with metadata made for its subscriber, and so in several.
    static let worthSegments = 4 << 10

    /// Hands over what may be handed over now, applies the overflow policy to the rest, and ends the subscription if
    /// its end is due.
    func deliver(_ subscriber: Subscriber, quantum: Int = .max, now: Instant) {
        let isWaiting =
            if let exchange = subscriber.exchange {
                if let plain = exchange.plain {
                    handOverRecords(subscriber, exchange, plain, quantum: quantum, now: now)
                } else {
                    handOverEntries(subscriber, exchange, quantum: quantum)
                }
            } else {
                handOver(subscriber, quantum: quantum)
            }
        subscriber.cursor.settle()
        note(subscriber, now: now)
        if isWaiting, !subscriber.isHungry {
            subscriber.connection.add(hungry: subscriber)
            // It may wait for memory, of which no write tells.
            if subscriber.connection.session != nil { timers.touch(subscriber.connection) }
        }
        if let end = subscriber.cursor.takeEnd() {
            finish(subscriber, end, now: now)
        } else if subscriber.exchange != nil {
            endIfSpent(subscriber)
        }
    }

    /// A subscription has got what it gets now.
    @inline(__always)
    private func note(_ subscriber: Subscriber, now: Instant) {
        countLosses(of: subscriber)
        guard subscriber.cursor.waiting > 0 else {
            if subscriber.behindSince != nil { subscriber.behindSince = nil }
            return subscriber.mirror.noteMove(of: subscriber, oldest: MinimumTree.none)
        }
        if subscriber.behindSince == nil { subscriber.behindSince = now.monotonic }
        subscriber.mirror.noteMove(of: subscriber, oldest: subscriber.cursor.cursor.value)
    }

    /// What a subscription has lost since this was last done goes into the counters.
    func countLosses(of subscriber: Subscriber) {
        guard subscriber.hasJoined else { return }
        let dropped = subscriber.cursor.dropped
        guard dropped != subscriber.countedDropped else { return }
        counters.dropped[subscriber.options.overflow] &+= dropped &- subscriber.countedDropped
        subscriber.mirror.dropped.add(dropped &- subscriber.countedDropped, under: subscriber.options.overflow)
        subscriber.countedDropped = dropped
        if subscriber.options.overflow != .latest { counters.lastDrop = moment.monotonic }
    }

    /// Returns whether there is more to hand over once the output has room.
    private func handOver(_ subscriber: Subscriber, quantum: Int) -> Bool {
        let connection = subscriber.connection
        let log = subscriber.mirror.log
        let start = connection.output.count
        while let range = subscriber.deliverable(in: log) {
            let room = connection.output.room(limits.output)
            guard room > 0, connection.isOpen, connection.output.count - start < quantum else { return true }
            let piece = log.piece(of: range.lower)
            let position = range.lower - piece.first
            let most = Swift.min(range.count, piece.visible - position)
            let count: Int
            if subscriber.options.meta {
                count = handOverWithMetadata(piece.chunk, position, most, room: room, to: subscriber)
            } else {
                count = handOverFrames(piece.chunk, position, most, room: room, to: subscriber)
            }
            guard count > 0 else { return true }
            subscriber.cursor.handOver(count)
            counters.delivered &+= UInt64(count)
            subscriber.mirror.delivered &+= UInt64(count)
            flush(connection)
        }
        return false
    }

    /// Hands over up to `most` messages from `position` on as they are framed; returns how many had room.
    private func handOverFrames(
        _ chunk: Chunk, _ position: Int, _ most: Int, room: Int,
        to subscriber: Subscriber
    ) -> Int {
        let connection = subscriber.connection
        let first = chunk.entry(position)
        var count = chunk.hasMetadata ? 1 : most
        var size = Shard.size(chunk, first, position, count)
        if size > room, count > 1 {
            count = Shard.fitting(chunk, first, position, count, room: room)
            size = Shard.size(chunk, first, position, count)
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
        var dropped = subscriber.cursor.droppedBeforeNext
        while count < most, left > 0 {
            let entry = chunk.entry(position + count)
            let size = MessageMetadata.framed(payload: Int(entry.payload), carried: Int(entry.metadata))
            guard size <= left || connection.output.count == 0 else { break }
            if connection.output.kept != nil { connection.output.passIfShort(size) }
            let info = MessageMetadata(
                epoch: subscriber.mirror.epoch, sequence: chunk.first.advanced(by: position + count),
                timestamp: entry.timestamp, droppedBefore: dropped)
            if size >= (pool.isShort ? Output.worthASegment : Shard.worthSegments), connection.output.keeping == nil {
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

    /// What waited in the output may have gone without a write: it waits for its peer's windows now, or its stream has
    /// ended. Others of the connection may wait for that room, and no write will tell them.
    func noteRoom(_ connection: Connection) {
        guard connection.hungryCount > 0 || connection.http?.isCrowded == true, !connection.isRoomy else { return }
        connection.isRoomy = true
        roomyConnections.append(connection)
    }

    func feedRoomy(_ connection: Connection, now: Instant) {
        connection.isRoomy = false
        guard !connection.isClosed else { return }
        feedHungry(connection, now: now)
        if let http = connection.http { feedCrowded(http, now: now) }
    }

    /// Output has room again: subscribers that waited for it have their turns.
    func feedHungry(_ connection: Connection, now: Instant) {
        for _ in 0..<connection.hungryCount {
            guard connection.hasRoom(limits.output), !connection.output.blocked,
                let subscriber = connection.nextHungry()
            else { return }
            deliver(subscriber, quantum: connection.hungryCount > 0 ? Shard.subscriptionQuantum : .max, now: now)
        }
    }
}
