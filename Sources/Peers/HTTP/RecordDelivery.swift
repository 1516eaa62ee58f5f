// RecordDelivery: delivers messages to plain HTTP streams as ranges of records (events or lines of JSON) that all
// streams of the same format share. A loss, which concerns only one subscription, is written before or into the first
// record of a range.

import Bytes
import HTTP2
import Replay

extension EntryDelivery {
    /// The most bytes of records that may wait on one stream; a single record may be larger.
    static let largestRecords = 64 << 10

    /// Like `MessageDelivery.handOver`, to a plain HTTP stream. A stream with closed windows waits only for the event
    /// of their opening.
    func handOverRecords(
        _ subscriber: Subscriber, _ exchange: Exchange, _ plain: PlainExchange, quantum: Int, now: Instant
    ) -> Bool {
        let connection = subscriber.connection
        guard let http = connection.http else { return false }
        let view = subscriber.view
        let isNamed = subscriber.match != nil
        let form =
            isNamed
            ? EntryForm.namedRecord(plain.format, epoch: view.epoch) : .record(plain.format, epoch: view.epoch)
        var given = 0
        while let range = subscriber.deliverable() {
            let window = http.transport.room(exchange)
            guard window > 0, !exchange.isStalled else {
                stall(exchange, http)
                return false
            }
            let waiting = exchange.body.count
            let output = Swift.min(connection.room(limits.output), EntryDelivery.largestRecords - waiting)
            guard output > 0, connection.isOpen, given < quantum else { return true }
            let room = Swift.min(output, window - waiting)
            guard room > 0 || exchange.body.isEmpty else { return true }
            // The size is checked before the record is made, because making the record takes that much memory.
            if http.bodies.beyond >= http.bodies.mostBeyond(limits.beyondWindows), exchange.body.isEmpty {
                guard let size = entrySize(of: range.lower, as: form, for: subscriber) else { return false }
                if size > window {
                    http.crowd(exchange)
                    return false
                }
            }
            guard let run = entryRun(for: range.lower, as: form, of: subscriber) else { return false }
            let (count, bytes) = run.entries(from: range.lower, most: range.count, room: room)
            // A record larger than the entire space is sent alone.
            guard bytes.count <= room || exchange.body.isEmpty else { return true }
            append(bytes, of: run, from: range.lower, of: subscriber, exchange, plain)
            if !isNamed { plain.last.sequence = range.lower.value + UInt64(count) - 1 }
            plain.lastSign = now.monotonic
            given += bytes.count
            subscriber.handOver(count, of: range)
            http.weigh(exchange)
            http.transport.bodyAvailable(exchange)
            counters.delivered &+= UInt64(count)
            view.delivered &+= UInt64(count)
            connections.flush(connection)
        }
        return false
    }

    /// Appends records to the body, with what the subscription lost before the first record.
    private func append(
        _ bytes: UnsafeRawBufferPointer, of run: EntryRun, from sequence: SequenceNumber, of subscriber: Subscriber,
        _ exchange: Exchange, _ plain: PlainExchange
    ) {
        let isNamed = subscriber.match != nil
        let loss = StreamLoss(
            dropped: subscriber.cursor.dropped(before: sequence),
            restarts: (isNamed || plain.last.sequence == 0) && subscriber.hasUnreportedGap)
        guard loss.dropped > 0 || loss.restarts else { return exchange.body.append(bytes, of: run) }
        let piece = subscriber.view.log.piece(of: sequence)
        let place = plain.format.placeOfLoss(
            epoch: subscriber.view.epoch, sequence: sequence.value,
            timestamp: piece.chunk.entry(sequence - piece.first).timestamp,
            topic: isNamed ? subscriber.view.name.utf8.count : 0)
        exchange.body.append(bytes.slice(0..<place), of: run)
        exchange.body.append { plain.format.append(loss, into: &$0) }
        exchange.body.append(bytes.slice(place..<bytes.count), of: run)
    }
}
