// HTTP2Client+Plain: a client's requests over plain HTTP: single messages, and subscriptions as event streams or JSON
// lines, which receive credit by separate requests.

import ForebayWire
import HTTP2Frames

extension HTTP2Client {
    // Requests

    private func ask(_ stream: UInt32, _ method: String, _ path: String, _ more: [(String, String)], end: Bool) {
        link.request(
            stream, [(":method", method), (":scheme", "http"), (":authority", "broker"), (":path", path)] + more,
            end: end)
    }

    func post(_ topic: String, _ text: [UInt8], contentType: String, _ ledger: AcknowledgedLedger) {
        calls[ledger.stream] = Call(.post, ledger)
        ask(
            ledger.stream, "POST", "/v1/topics/\(topic)/messages",
            contentType.isEmpty ? [] : [("content-type", contentType)], end: false)
        link.send(ledger.stream, text)
        endSoon(ledger)
    }

    func get(_ ledger: SubscriberLedger, n: Int) {
        let form = chance.pick([Call.Form.events, .lines])
        calls[ledger.stream] = Call(form, ledger)
        let query = ledger.request.route.dropFirst(ledger.request.topic.count + 1)
        ask(
            ledger.stream, "GET", "/v1/topics/\(ledger.request.topic)/messages?\(query)&request=\(n)",
            [("accept", form == .events ? "text/event-stream" : "application/x-ndjson")], end: true)
        wire.whenRead { ledger.fed(n) }
    }

    /// Grants credit to a stream that has sent its id. A demand of 0 is never sent, because it would fail only that
    /// request.
    func credit(_ n: Int, _ ledger: SubscriberLedger, _ call: Call) {
        guard n > 0, let id = call.id else { return }
        ledger.asks(n)
        let request = CreditLedger(self, ledger, referee)
        calls[request.stream] = Call(.credit, request)
        ask(request.stream, "POST", "/v1/subscriptions/\(id)/request?n=\(n)", [], end: true)
        wire.whenRead { ledger.fed(n) }
    }

    // Answers

    /// Takes complete records from a stream's body.
    func takeRecords(_ call: Call) {
        guard call.status == "200", let ledger = call.ledger as? SubscriberLedger else { return }
        let isEvents = call.form == .events
        // The number of line feeds: a line's end, or an empty line.
        let mark = isEvents ? 2 : 1
        var start = 0
        while let end = recordEnd(call, mark) {
            let text = String(decoding: call.body[start..<end], as: UTF8.self)
            start = end + mark
            call.looked = start
            referee.expect(call.end == nil, "\(ledger.name) was sent '\(text)' after its end")
            if isEvents { takeEvent(text, ledger, call) } else { takeLine(text, ledger, call) }
        }
        call.body.removeFirst(start)
        call.looked -= start
    }

    /// Where the next `mark` line feeds begin; bytes already searched are skipped.
    private func recordEnd(_ call: Call, _ mark: Int) -> Int? {
        var place = call.looked
        let end = call.body.withUnsafeBufferPointer { bytes -> Int? in
            while place + mark <= bytes.count {
                if bytes[place] == 10, bytes[place + mark - 1] == 10 { return place }
                place += 1
            }
            return nil
        }
        call.looked = place
        return end
    }

    private func takeEvent(_ text: String, _ ledger: SubscriberLedger, _ call: Call) {
        var fields: [String: String] = [:]
        for line in text.split(separator: "\n") {
            guard let colon = line.firstIndex(of: ":"), colon > line.startIndex else { continue }
            fields[String(line[..<colon])] = String(line[colon...].dropFirst(2))
        }
        let data = fields["data"] ?? ""
        let notice = Row(Array(data.utf8))
        switch fields["event"] {
        case nil where fields["id"] != nil:
            let id = fields["id"]!.split(separator: "-").compactMap { UInt64($0) }
            guard id.count == 2 else { return referee.fail("\(ledger.name) was sent '\(text)'") }
            let figures = MessagePosition(epoch: id[0], sequence: id[1], dropped: call.dropped, carried: nil)
            call.dropped = 0
            ledger.item(figures, Array(data.utf8))
        case nil where call.place != nil:
            guard let (epoch, sequence, topic) = call.place.take() else { return }
            let figures = MessagePosition(
                epoch: epoch, sequence: sequence, dropped: call.dropped, carried: nil, topic: topic)
            call.dropped = 0
            ledger.item(figures, Array(data.utf8))
        case nil: break
        case "topic":
            guard let epoch = notice?.number("epoch"), let sequence = notice?.number("sequence"),
                let topic = notice?["topic"], ledger is PatternLedger
            else { return referee.fail("\(ledger.name) was sent '\(text)'") }
            referee.expect(call.place == nil, "\(ledger.name) was sent two topics for one message: \(data)")
            call.place = (epoch, sequence, topic)
        case "gap":
            referee.expect(call.dropped == 0, "\(ledger.name) was notified of a gap twice")
            call.dropped = notice?.number("dropped") ?? 0
        case "subscribed":
            referee.expect(notice?["subscription"] == call.id, "\(ledger.name) received a different id: \(data)")
        case "topic-end":
            guard let topic = notice?["topic"], let epoch = notice?.number("epoch") else {
                return referee.fail("\(ledger.name) was sent '\(text)'")
            }
            takeEnd(of: topic, epoch, notice, ledger)
        case "complete"?: call.end = (nil, notice?.number("dropped") ?? 0)
        case "failed"?: call.end = (notice?["message"] ?? "", notice?.number("dropped") ?? 0)
        default: referee.fail("\(ledger.name) was sent '\(text)'")
        }
    }

    private func takeEnd(of topic: String, _ epoch: UInt64, _ notice: Row?, _ ledger: SubscriberLedger) {
        takeEnd(
            EndNotice(
                topic: topic, epoch: epoch, failure: notice?["failure"], dropped: notice?.number("dropped") ?? 0,
                restarts: false), ledger)
    }

    /// One topic of a pattern has ended.
    func takeEnd(_ end: EndNotice, _ ledger: SubscriberLedger) {
        guard let pattern = ledger as? PatternLedger else {
            return referee.fail("\(ledger.name) is not to a pattern, but received \(end)")
        }
        pattern.topicEnded(end)
    }

    private func takeLine(_ text: String, _ ledger: SubscriberLedger, _ call: Call) {
        let line = Row(Array(text.utf8))
        let dropped = line?.number("dropped") ?? 0
        if let end = line?["end"] {
            return call.end = (end == "complete" ? nil : line?["message"] ?? end, dropped)
        }
        if let topic = line?["topic_end"], let epoch = line?.number("epoch") {
            return takeEnd(of: topic, epoch, line, ledger)
        }
        guard let sequence = line?.number("sequence"), let epoch = line?.number("epoch"), let payload = line?["payload"]
        else { return referee.fail("\(ledger.name) was sent '\(text)'") }
        let carried = line?["content_type"].map { ContentType.entry($0) } ?? []
        ledger.item(
            MessagePosition(
                epoch: epoch, sequence: sequence, dropped: dropped, carried: carried, topic: line?["topic"]),
            Array(payload.utf8))
    }

    func endPlain(_ call: Call) {
        let text = String(decoding: call.body, as: UTF8.self)
        let answer = Row(call.body)
        let isDone = call.status == "200" || call.status == "201" || call.status == "204"
        // The text of the problem.
        var error = isDone ? nil : answer?["detail"] ?? text
        // Responses without a body, as when memory is full.
        if error == "" { error = call.status == "429" ? "limit: unfinished requests" : "not-found: " }
        noteLimit(error, call.ledger)
        switch call.ledger {
        case let ledger as AcknowledgedLedger where isDone:
            guard let sequence = answer?.number("sequence"), let epoch = answer?.number("epoch") else {
                return referee.fail("\(ledger.name) was answered with \(text)")
            }
            acknowledge(ledger, sequence, epoch)
            ledger.ended(nil, nil)
        case let ledger as SubscriberLedger where isDone:
            guard let end = call.end, text.isEmpty else {
                return referee.fail("\(ledger.name) ended without a reason, but with '\(text)'")
            }
            if let error = end.error {
                referee.expect(
                    ledger.agrees(error, lost: end.lost),
                    "\(ledger.name) received a loss of \(end.lost), but the error: \(error)")
            }
            ledger.ended(end.error, lost: end.lost, isSpent: false)
        case let ledger as SubscriberLedger: ledger.ended(error, lost: 0, isSpent: false)
        default: call.ledger.ended(nil, error)
        }
    }
}

/// A request for credit, which is given to an existing subscription.
final class CreditLedger: StreamLedger {
    private let subscriber: SubscriberLedger

    init(_ client: any VirtualClient, _ subscriber: SubscriberLedger, _ referee: Referee) {
        self.subscriber = subscriber
        super.init(client, "credit for stream \(subscriber.stream)", referee)
    }

    override func ended(_ metadata: [UInt8]?, _ error: String?) {
        super.ended(metadata, error)
        guard let error else { return }
        referee.expect(
            ErrorWord(beginning: error) == .notFound && subscriber.leaving != nil,
            "\(name) was refused although the subscription exists: \(error)")
    }
}
