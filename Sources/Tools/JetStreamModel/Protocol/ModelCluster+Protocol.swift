// What operations of clients do, and how messages reach subscriptions.

import Bytes

extension ModelCluster {
    /// Where a message comes from, which decides how long it takes and how it may fail.
    enum Origin {
        /// A client, or the server itself in the same turn.
        case client
        case answer
        case acknowledgement
        case republished
    }

    /// - Throws: if the connection ends.
    func interpret(_ operation: ClientOperation, on connection: Connection) throws(ClientError) {
        switch operation {
        case .connect(let json): try connection.connect(json)
        case .ping: return write(Array("PONG\r\n".utf8), to: connection)
        case .pong:
            connection.unanswered = 0
            return
        case .subscribe(let filter, let queue, let id):
            guard Subjects.isValid(filter: filter) else { return writeError("Invalid Subject", to: connection) }
            connection.subscribe(filter: filter, queue: queue, id: id)
        case .unsubscribe(let id, let max): connection.unsubscribe(id: id, max: max)
        case .publish(let message):
            if connection.isPedantic, !Subjects.isValid(message.subject) {
                writeError("Invalid Publish Subject", to: connection)
            }
            publish(message, from: connection)
        }
        if connection.isVerbose { write(Array("+OK\r\n".utf8), to: connection) }
    }

    /// A client publishes.
    private func publish(_ message: Publication, from connection: Connection) {
        let tokens = Subjects.tokens(message.subject)
        var receivers = route(message, from: connection, .client)
        if message.subject.hasPrefix("$JS.API.") {
            if answer(message, tokens) { receivers += 1 }
        } else if let name = streamName(for: message.subject), let stream = streams[name],
            propose(message, to: stream)
        {
            receivers += 1
        }
        guard receivers == 0, let reply = message.reply, connection.wantsNoResponders else { return }
        let headers = HeaderBlock.status("503", [("Nats-Subject", message.subject)])
        let notice = Publication(subject: reply, reply: nil, headers: headers, payload: [])
        let filter = Subjects.tokens(reply)
        for index in connection.subscriptions.indices.reversed()
        where Subjects.matches(connection.subscriptions[index].filter, filter) {
            write(connection.take(notice, for: index), to: connection)
        }
    }

    /// Sends a message to all subscriptions that match. Returns how many there are.
    @discardableResult
    func route(_ message: Publication, from publisher: Connection?, _ origin: Origin, term: UInt64 = 0) -> Int {
        let tokens = Subjects.tokens(message.subject)
        guard !tokens.contains("") else { return 0 }
        var receivers = 0
        var groups: [String: [(connection: Connection, id: String)]] = [:]
        for connection in connections where connection.isOpen && (connection !== publisher || connection.wantsEcho) {
            for subscription in connection.subscriptions where Subjects.matches(subscription.filter, tokens) {
                receivers += 1
                if let queue = subscription.queue {
                    groups[queue, default: []].append((connection, subscription.id))
                } else {
                    deliver(message, to: connection, subscription.id, origin, term)
                }
            }
        }
        for (_, members) in groups.sorted(by: { $0.key < $1.key }) {
            let member = members[chance.below(members.count)]
            deliver(message, to: member.connection, member.id, origin, term)
        }
        return receivers
    }

    private func deliver(
        _ message: Publication, to connection: Connection, _ subscription: String, _ origin: Origin, _ term: UInt64
    ) {
        if origin == .republished, fails(\.lostRepublished, \.lostRepublished) { return }
        let mayRepeat = origin == .republished || origin == .acknowledgement
        for _ in 0..<(mayRepeat && fails(\.duplicates, \.duplicates) ? 2 : 1) {
            guard let index = connection.subscriptions.firstIndex(where: { $0.id == subscription }) else { return }
            let bytes = connection.take(message, for: index)
            let lane = Connection.Lane(subject: message.subject, term: faults.newLeaderOvertakes ? term : 0)
            send(bytes, to: connection, lane, delay(of: origin))
        }
    }

    private func delay(of origin: Origin) -> UInt64 {
        switch origin {
        case .answer: chance.time(upTo: faults.answerDelay)
        case .acknowledgement: chance.time(upTo: faults.acknowledgementDelay)
        case .client, .republished: chance.time(upTo: faults.liveDelay)
        }
    }

    private func send(_ bytes: [UInt8], to connection: Connection, _ lane: Connection.Lane, _ delay: UInt64) {
        let delayed = connection.lanes[lane]
        guard delay > 0 || delayed != nil else { return write(bytes, to: connection) }
        let due = max(now.addingClamped(delay), delayed?.due ?? 0)
        connection.lanes[lane] = ((delayed?.count ?? 0) + 1, due)
        timeline.insert(.deliver(bytes, to: connection.id, lane), due: due)
    }

    // MARK: Output

    func write(_ bytes: [UInt8], to connection: Connection) {
        guard connection.isOpen, !connection.isPartitioned else { return }
        connection.output += bytes
        if connection.output.count > options.maxPending { close(connection, "Slow Consumer") }
    }

    private func writeError(_ text: String, to connection: Connection) {
        write(Array("-ERR '\(text)'\r\n".utf8), to: connection)
    }

    /// The server closes a connection.
    func close(_ connection: Connection, _ error: String?) {
        guard connection.isOpen else { return }
        if let error, !connection.isPartitioned { connection.write("-ERR '\(error)'\r\n") }
        connection.close()
        timeline.removeAll(to: connection.id)
    }
}
