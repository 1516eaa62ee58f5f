// `DIRECT.GET`: messages as they are stored, one or a batch, from any replica.

extension ModelCluster {
    /// Answers a direct get. Returns whether something listens at its subject.
    func getDirectly(_ message: Publication, _ tokens: [String]) -> Bool {
        guard tokens.count > 4, let stream = streams[tokens[4]], stream.configuration.allowsDirect else { return false }
        func status(_ status: String) {
            reply(to: message, headers: HeaderBlock.status(status), [], term: stream.term)
        }
        var query: GetRequest
        if tokens.count > 5 {
            query = GetRequest(last: tokens[5...].joined(separator: "."))
        } else {
            do throws(APIError) {
                guard let request = try ModelCluster.parse(message.payload) else {
                    status("408 Empty Request")
                    return true
                }
                query = try GetRequest(request.root)
            } catch {
                status("408 Malformed Request")
                return true
            }
        }
        guard !query.isEmpty else {
            status("408 Empty Request")
            return true
        }
        guard query.isValid else {
            status("408 Bad Request")
            return true
        }
        let replica = replica(of: stream)
        let found = replica.find(query)
        if query.batch >= 0, found.isEmpty {
            status("404 Message Not Found")
            return true
        }
        send(found, of: stream, replica, query, to: message)
        return true
    }

    private func send(
        _ found: [StoredMessage], of stream: Stream, _ replica: Replica, _ query: GetRequest, to request: Publication
    ) {
        let filter = query.next.map(Subjects.tokens)
        var pending = query.batch == 0 ? 0 : replica.messages(from: query.sequence, filter).count
        var last: UInt64 = 0
        for message in found {
            pending = max(0, pending - 1)
            var headers = stream.headers(of: message)
            if query.batch != 0 {
                headers += [("Nats-Num-Pending", "\(pending)"), ("Nats-Last-Sequence", "\(last)")]
            }
            last = message.sequence
            let block = query.leavesOutHeaders ? nil : HeaderBlock.adding(headers, to: message.headers)
            reply(to: request, headers: block, message.payload, term: stream.term)
        }
        guard query.batch != 0 else { return }
        let end = HeaderBlock.status(
            "204 EOB", [("Nats-Num-Pending", "\(pending)"), ("Nats-Last-Sequence", "\(last)")])
        reply(to: request, headers: end, [], term: stream.term)
    }

    /// The replica that answers, which may lag.
    private func replica(of stream: Stream) -> Replica {
        var missing = stream.missing
        if chance.isOne(in: faults.lagging), stream.lastSequence > 0 {
            let count = UInt64(1 + chance.below(faults.maxLag))
            // The newest messages, or as many somewhere before them.
            let back = chance.below(2) == 0 ? 0 : UInt64(chance.below(4 * faults.maxLag))
            let end = stream.lastSequence - min(back, stream.lastSequence - 1)
            missing.append(end - min(count - 1, end - 1)...end)
        }
        return Replica(messages: stream.messages.filter { message in !missing.contains { $0 ~= message.sequence } })
    }
}

/// The messages that a replica has.
private struct Replica {
    var messages: [StoredMessage]

    func messages(from sequence: UInt64, _ filter: [String]?) -> [StoredMessage] {
        messages.filter { message in
            message.sequence >= sequence
                && (filter.map { Subjects.matches($0, Subjects.tokens(message.subject)) } ?? true)
        }
    }

    /// The messages of an answer.
    func find(_ query: GetRequest) -> [StoredMessage] {
        if let last = query.last {
            let filter = Subjects.tokens(last)
            return messages.last { Subjects.matches(filter, Subjects.tokens($0.subject)) }.map { [$0] } ?? []
        }
        let candidates = messages(from: query.sequence, query.next.map(Subjects.tokens))
        if query.batch == 0 {
            return candidates.first.flatMap { query.next != nil || $0.sequence == query.sequence ? [$0] : nil } ?? []
        }
        var size = 0
        var found: [StoredMessage] = []
        for message in candidates.prefix(max(0, query.batch)) where query.maxBytes <= 0 || size < query.maxBytes {
            found.append(message)
            size += message.subject.utf8.count + (message.headers?.count ?? 0) + message.payload.count
        }
        return found
    }
}
