// RecordDelivery: messages go to streams of plain HTTP one by one, each written for its stream: as an event, or as a
// line of JSON.

import Bytes
import HTTP2
import Replay

extension Shard {
    /// Bytes of records that one stream may have waiting for their turn, but one record at least.
    static let largestRecords = 64 << 10

    /// As `handOver`, to a stream of plain HTTP. A stream whose windows are closed is told when they open, and waits
    /// for nothing else.
    func handOverRecords(
        _ subscriber: Subscriber, _ exchange: Exchange, _ plain: PlainExchange, quantum: Int, now: Instant
    ) -> Bool {
        let connection = subscriber.connection
        guard let http = connection.http else { return false }
        let log = subscriber.mirror.log
        var given = 0
        while let range = subscriber.deliverable(in: log) {
            let window = http.room(exchange)
            guard window > 0, !exchange.isStalled else {
                exchange.isStalled = true
                http.weighAgainstWindow(exchange)
                return false
            }
            let waiting = exchange.body.count
            let output = Swift.min(
                limits.output - connection.handedOver, Shard.largestRecords - waiting)
            guard output > 0, connection.isOpen, given < quantum else { return true }
            let piece = log.piece(of: range.lower)
            let position = range.lower - piece.first
            let most = Swift.min(range.count, piece.visible - position)
            let allowed = http.beyond < limits.beyondWindows ? Int.max : window
            let count = write(
                piece.chunk, position, most, room: Swift.min(output, window - waiting), alone: allowed, of: subscriber,
                exchange, plain)
            if count == 0, exchange.body.isEmpty {
                http.crowd(exchange)
                return false
            }
            guard count > 0 else { return true }
            plain.lastSign = now.monotonic
            given += exchange.body.count - waiting
            subscriber.cursor.handOver(count)
            http.weigh(exchange)
            http.bodyAvailable(exchange)
            counters.delivered &+= UInt64(count)
            subscriber.mirror.delivered &+= UInt64(count)
            flush(connection)
        }
        return false
    }

    /// Writes up to `most` messages from `position` on behind the body; returns how many had room. One message larger
    /// than all the room goes alone, if it has at most `alone` bytes.
    private func write(
        _ chunk: Chunk, _ position: Int, _ most: Int, room: Int, alone: Int, of subscriber: Subscriber,
        _ exchange: Exchange, _ plain: PlainExchange
    ) -> Int {
        let format = plain.format
        let epoch = subscriber.mirror.epoch
        var dropped = subscriber.cursor.droppedBeforeNext
        var left = room
        var count = 0
        while count < most, left > 0 || exchange.body.isEmpty {
            let entry = chunk.entry(position + count)
            let sequence = chunk.first.advanced(by: position + count).value
            var message = StreamedMessage(
                epoch: epoch, sequence: sequence, timestamp: entry.timestamp, dropped: dropped,
                metadata: chunk.metadata(entry), payload: payload(of: entry, in: chunk))
            if plain.last.sequence == 0 { message.restarts = subscriber.hasUntoldGap }
            let record = StreamRecord(message, as: format)
            guard record.size <= left || exchange.body.isEmpty && record.size <= alone else { break }
            exchange.body.append { record.append(into: &$0) }
            plain.last.sequence = sequence
            dropped = 0
            left -= record.size
            count += 1
        }
        if wholePayload.capacity > 0 {
            wholePayload.removeAll()
            wholePayload.shrink()
        }
        return count
    }

    /// A message's payload in one piece. Valid until the next call; that of a long message is put together.
    private func payload(of entry: Chunk.Entry, in chunk: Chunk) -> UnsafeRawBufferPointer {
        let count = Int(entry.payload)
        guard Int(entry.framed) > PayloadFraming.header + count else {
            return chunk.bytes(Int(entry.offset) + PayloadFraming.header, count)
        }
        wholePayload.removeAll()
        chunk.forEachPayloadPart(entry) { wholePayload.append($0) }
        return wholePayload.readable
    }
}
