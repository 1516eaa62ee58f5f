// EntryDelivery: delivers messages to gRPC subscribers as ranges of entries that all of them share. Each range is one
// response: a prefix, the entries, and the fields that are specific to the subscriber.

import Bytes
import HTTP2
import Replay

extension Credit {
    /// As reported to gRPC clients.
    var reported: UInt64 { isUnbounded ? SubscribeTail.unbounded : outstanding }
}

final class EntryDelivery: ShardPart {
    let connections: ConnectionTable

    init(_ context: ShardContext, _ connections: ConnectionTable) {
        self.connections = connections
        super.init(context)
    }

    /// The run that holds a message in another form. Nil if the run has yet to be made, which takes long, and the turn
    /// has no time left: the subscription is then served in a later turn.
    func entryRun(for sequence: SequenceNumber, as form: EntryForm, of subscriber: Subscriber) -> EntryRun? {
        let view = subscriber.view
        if let run = view.entries.find(sequence, as: form) { return run }
        let payload = payload(of: sequence, in: view.log)
        guard hasTime(for: payload, of: subscriber) else { return nil }
        if payload >= Work.worthATurn, !hasMemory(for: sequence, payload: payload, as: form, in: view) {
            reached(.memory)
            work.makeWhenThereIsMemory(for: subscriber)
            return nil
        }
        view.entries.evict(before: view.log.oldestHeld)
        view.noteRuns()
        let made = view.entries.made
        let run = view.entries.run(for: sequence, in: view.log, of: view.name, as: form, pool)
        work.note(made: view.entries.made - made)
        return run
    }

    /// Bytes of a message in another form. Nil if the message has yet to be measured, which takes long, and the turn
    /// has no time left: the subscription is then served in a later turn.
    func entrySize(of sequence: SequenceNumber, as form: EntryForm, for subscriber: Subscriber) -> Int? {
        let view = subscriber.view
        if let size = view.entries[sizesAs: form].size(of: sequence) { return size }
        guard hasTime(for: payload(of: sequence, in: view.log), of: subscriber) else { return nil }
        return measure(sequence, as: form, in: view)
    }

    private func payload(of sequence: SequenceNumber, in log: Log) -> Int {
        let piece = log.piece(of: sequence)
        return Int(piece.chunk.entry(sequence - piece.first).payload)
    }

    /// Measures a message in another form, and keeps its size.
    private func measure(_ sequence: SequenceNumber, as form: EntryForm, in view: TopicView) -> Int {
        let piece = view.log.piece(of: sequence)
        let entry = piece.chunk.entry(sequence - piece.first)
        let size = EntryRun.size(of: sequence, in: view.log, of: view.name, as: form)
        work.note(made: Int(entry.payload) + Int(entry.metadata))
        let isLarge = Int(entry.payload) >= Work.worthATurn
        view.entries[sizesAs: form].note(sequence, size, isLarge: isLarge, head: view.log.oldestHeld)
        return size
    }

    /// Whether the turn has time to measure a message or to encode it in another form. If not, delivery to the
    /// subscription continues in a later turn.
    private func hasTime(for payload: Int, of subscriber: Subscriber) -> Bool {
        guard payload >= Work.worthATurn, work.isTurnOver || work.hasMadeMuch else { return true }
        work.makeLater(for: subscriber)
        return false
    }

    /// Whether a large message may be encoded in another form. All such messages together may take only a part of
    /// memory, because each is kept while it is being sent to anyone. The first is encoded however large it is.
    private func hasMemory(for sequence: SequenceNumber, payload: Int, as form: EntryForm, in view: TopicView) -> Bool {
        let most = memory.limit / EntryForm.share
        let forms = memory.forms
        if forms == 0 || forms + EntryForm.most * payload <= most { return true }
        let size = view.entries[sizesAs: form].size(of: sequence) ?? measure(sequence, as: form, in: view)
        return forms + size <= most
    }

    /// Makes an exchange wait until the peer's windows open.
    func stall(_ exchange: Exchange, _ http: HTTPConnection) {
        exchange.isStalled = true
        http.detach(exchange)
        connections.noteRoom(exchange.connection)
        connections.charge(exchange.connection)
    }

    /// When a notice can be sent on an exchange.
    enum Room {
        case now
        case whenWindowOpens
        case whenOutputHasSpace
    }

    /// When a notice of any size can be sent on an exchange.
    func room(_ exchange: Exchange) -> Room {
        let connection = exchange.connection
        guard let http = connection.http else { return .whenWindowOpens }
        let window = http.transport.room(exchange)
        guard window > 0, !exchange.isStalled else {
            stall(exchange, http)
            return .whenWindowOpens
        }
        let most = Swift.min(window, EntryDelivery.largestRecords)
        let hasSpace = connection.room(limits.output) > 0 && connection.isOpen && exchange.body.count < most
        return hasSpace ? .now : .whenOutputHasSpace
    }

    /// The most bytes of entries in one response, unless a single entry is larger.
    static let largestResponse = 1 << 20

    /// Like `MessageDelivery.handOver`, to a gRPC call. A call with closed windows waits only for the event of their
    /// opening.
    func handOverEntries(_ subscriber: Subscriber, _ exchange: Exchange, quantum: Int) -> Bool {
        let connection = subscriber.connection
        guard let http = connection.http else { return false }
        let view = subscriber.view
        let form = subscriber.match == nil ? EntryForm.call : .namedCall
        var given = 0
        while let range = subscriber.deliverable() {
            let window = http.transport.room(exchange)
            guard window > 0, !exchange.isStalled else {
                stall(exchange, http)
                return false
            }
            let output = connection.room(limits.output)
            guard output > 0, connection.isOpen, given < quantum else { return true }
            let allowed = window - exchange.body.count
            let room = Swift.min(output, allowed, EntryDelivery.largestResponse)
            guard room > 0 || exchange.body.isEmpty else { return true }
            // The size is checked before the entry is made, because making the entry takes that much memory.
            if http.bodies.beyond > 0, http.bodies.beyond >= http.bodies.mostBeyond(limits.beyondWindows) {
                guard let size = entrySize(of: range.lower, as: form, for: subscriber) else { return false }
                if size > allowed {
                    http.crowd(exchange)
                    return false
                }
            }
            guard let run = entryRun(for: range.lower, as: form, of: subscriber) else { return false }
            let (count, bytes) = run.entries(from: range.lower, most: range.count, room: room)
            let dropped = subscriber.cursor.dropped(before: range.lower)
            subscriber.handOver(count, of: range)
            let credit = subscriber.match?.subscription.credit ?? subscriber.credit
            let tail = SubscribeTail(outstandingCredit: credit.reported, epoch: view.epoch, dropped: dropped)
            append(bytes, of: run, tail, to: exchange)
            http.weigh(exchange, window: window)
            given += bytes.count
            http.transport.bodyAvailable(exchange)
            counters.delivered &+= UInt64(count)
            subscriber.view.delivered &+= UInt64(count)
            connections.flush(connection)
        }
        return false
    }

    /// Appends a response to the body. Short entries are copied to make the response one piece, because sending three
    /// would cost more.
    private func append(
        _ bytes: UnsafeRawBufferPointer, of run: EntryRun, _ tail: SubscribeTail, to exchange: Exchange
    ) {
        let size = tail.size
        let isShort = bytes.count < Output.worthASegment
        exchange.body.append { out in
            let begin = GRPCFraming.prefix + (isShort ? bytes.count + size : 0)
            let target = UnsafeMutableRawBufferPointer(start: out.reserve(begin), count: begin)
            GRPCFraming.writePrefix(count: bytes.count + size, to: target.baseAddress!)
            if isShort {
                UnsafeMutableRawBufferPointer(rebasing: target[GRPCFraming.prefix...]).copyMemory(from: bytes)
                tail.write(to: target.baseAddress! + (begin - size))
            }
            out.commit(begin)
        }
        if isShort { return }
        exchange.body.append(bytes, of: run)
        exchange.body.append { out in
            tail.write(to: out.reserve(size))
            out.commit(size)
        }
    }
}
