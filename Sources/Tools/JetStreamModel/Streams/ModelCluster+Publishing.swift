// How a message gets into a stream: proposed to the leader, committed, acknowledged, republished.

import Bytes

extension ModelCluster {
    /// Takes a message for a stream. Returns whether something listens at its subject.
    func propose(_ message: Publication, to stream: Stream) -> Bool {
        guard isJetStreamAvailable, !fails(\.unavailable, \.unavailable) else { return false }
        guard now >= stream.leaderlessUntil else { return now < stream.silentUntil }
        let time = wallTime(of: stream)
        stream.applyLimits(now: time)
        do throws(Refusal) {
            try stream.check(message, now: time)
        } catch {
            refuse(message, error, in: stream)
            return true
        }
        stream.proposed += 1
        stream.proposals.append(Stream.Proposal(message: message, number: stream.proposed))
        let delay = stream.isReplicated ? chance.time(upTo: faults.commitDelay) : 0
        guard delay > 0 || stream.proposals.count > 1 else {
            commit(stream.proposed, in: stream)
            return true
        }
        stream.commitTime = max(stream.commitTime, now.addingClamped(delay))
        timeline.insert(.commit(stream, stream.proposed), due: stream.commitTime)
        return true
    }

    /// Commits a proposal, unless it was lost or the stream was deleted.
    func commit(_ number: UInt64, in stream: Stream, isAcknowledged: Bool = true) {
        guard streams[stream.configuration.name] === stream,
            let index = stream.proposals.firstIndex(where: { $0.number == number })
        else { return }
        let message = stream.proposals.remove(at: index).message
        do throws(Refusal) {
            if stream.isReplicated { try stream.checkLastID(message) }
        } catch {
            return refuse(message, error, in: stream)
        }
        let previous = stream.messages.last { $0.subject == message.subject }?.sequence ?? 0
        let stored = stream.append(message, now: wallTime(of: stream))
        if isAcknowledged { acknowledge(message, stored.sequence, isDuplicate: false, in: stream) }
        republish(stored, after: previous, from: stream)
    }

    private func refuse(_ message: Publication, _ refusal: Refusal, in stream: Stream) {
        switch refusal {
        case .duplicate(let sequence): acknowledge(message, sequence, isDuplicate: true, in: stream)
        case .error(let error):
            var writer = JSONWriter()
            writer.put("error", raw: error.json)
            writer.put("stream", stream.configuration.name)
            writer.put("seq", 0)
            sendAcknowledgement(writer.object, of: message, in: stream)
        }
    }

    private func acknowledge(_ message: Publication, _ sequence: UInt64, isDuplicate: Bool, in stream: Stream) {
        guard message.reply != nil, !fails(\.lostAcknowledgements, \.lostAcknowledgements) else { return }
        let name = stream.configuration.name
        acknowledged.append(
            Acknowledged(
                stream: name, sequence: sequence, subject: message.subject,
                id: HeaderBlock.value("Nats-Msg-Id", in: message.headers), isDuplicate: isDuplicate))
        let mark = isDuplicate ? ",\"duplicate\": true" : ""
        sendAcknowledgement(
            "{\"stream\":\(JSONWriter.quoted(name)),\"seq\":\(sequence)\(mark)}", of: message, in: stream)
    }

    private func sendAcknowledgement(_ json: String, of message: Publication, in stream: Stream) {
        guard let reply = message.reply else { return }
        route(
            Publication(subject: reply, reply: nil, headers: nil, payload: Array(json.utf8)), from: nil,
            .acknowledgement, term: stream.term)
    }

    /// - Parameter previous: the sequence of the message before it with the same subject; 0 for none.
    func republish(_ message: StoredMessage, after previous: UInt64, from stream: Stream) {
        guard let destination = stream.destination(of: message.subject) else { return }
        var headers = stream.headers(of: message)
        headers.append(("Nats-Last-Sequence", "\(previous)"))
        let isHeadersOnly = stream.configuration.republish?.isHeadersOnly == true
        if isHeadersOnly { headers.append(("Nats-Msg-Size", "\(message.payload.count)")) }
        let block = HeaderBlock.adding(headers, to: message.headers)
        route(
            Publication(
                subject: destination, reply: nil, headers: block, payload: isHeadersOnly ? [] : message.payload),
            from: nil, .republished, term: stream.term)
    }
}

extension Stream {
    /// The headers that describe a message.
    func headers(of message: StoredMessage) -> [(String, String)] {
        [
            ("Nats-Stream", configuration.name), ("Nats-Subject", message.subject),
            ("Nats-Sequence", "\(message.sequence)"), ("Nats-Time-Stamp", Timestamp.text(message.time)),
        ]
    }
}
