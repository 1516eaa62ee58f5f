// EntryDelivery: messages go to gRPC subscribers as ranges of entries that all of them share, each range in a response
// of its own: prefix, entries, and what is this subscriber's alone.

import Bytes
import HTTP2
import Replay

extension Shard {
    /// Streams whose message goes beyond their window have their turns, as far as others have gone.
    func feedCrowded(_ http: HTTPFace, now: Instant) {
        while let exchange = http.nextCrowded(limit: http.mostBeyond(limits.beyondWindows)) {
            guard let bound = exchange.bound, bound.kind == .subscriber else { continue }
            deliver(unsafeDowncast(bound, to: Subscriber.self), now: now)
        }
    }

    /// Bytes of entries in one response, unless a single one has more.
    static let largestResponse = 1 << 20

    /// As `handOver`, to a gRPC call. A call whose windows are closed is told when they open, and waits for nothing
    /// else.
    func handOverEntries(_ subscriber: Subscriber, _ exchange: Exchange, quantum: Int) -> Bool {
        let connection = subscriber.connection
        guard let http = connection.http else { return false }
        let mirror = subscriber.mirror
        let log = mirror.log
        var given = 0
        while let range = subscriber.deliverable(in: log) {
            let window = http.room(exchange)
            guard window > 0, !exchange.isStalled else {
                exchange.isStalled = true
                http.detach(exchange)
                noteRoom(connection)
                charge(connection)
                return false
            }
            let output = connection.room(limits.output)
            guard output > 0, connection.isOpen, given < quantum else { return true }
            let allowed = window - exchange.body.count
            let room = Swift.min(output, allowed, Shard.largestResponse)
            guard room > 0 || exchange.body.isEmpty else { return true }
            // Before its entry is made, which takes as much memory.
            if http.beyond > 0, http.beyond >= http.mostBeyond(limits.beyondWindows),
                EntryRun.size(of: range.lower, in: log) > allowed
            {
                http.crowd(exchange)
                return false
            }
            mirror.entries.evict(before: log.head)
            mirror.noteRuns()
            let run = mirror.entries.run(for: range.lower, in: log, as: .call, pool)
            let (count, bytes) = run.entries(from: range.lower, most: range.count, room: room)
            let dropped = subscriber.cursor.droppedBeforeNext
            subscriber.cursor.handOver(count)
            let credit = subscriber.cursor.credit
            let tail = SubscribeTail(
                outstandingCredit: credit.isUnbounded ? SubscribeTail.unbounded : credit.outstanding,
                epoch: mirror.epoch, dropped: dropped)
            exchange.body.append { out in
                tail.writePrefix(entries: bytes.count, to: out.reserve(GRPCFraming.prefix))
                out.commit(GRPCFraming.prefix)
            }
            exchange.body.append(bytes, of: run)
            exchange.body.append { out in
                tail.write(to: out.reserve(tail.size))
                out.commit(tail.size)
            }
            http.weigh(exchange)
            given += bytes.count
            http.bodyAvailable(exchange)
            counters.delivered &+= UInt64(count)
            subscriber.mirror.delivered &+= UInt64(count)
            flush(connection)
        }
        return false
    }
}
