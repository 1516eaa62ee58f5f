// HTTP2Client+Answers: parses the responses to a client's requests, from frames and gRPC messages, for the ledgers.

import Bytes
import HTTP2
import HTTP2Frames

extension HTTP2Client {
    func take(_ frame: Received) {
        guard let call = calls[frame.stream] else { return }
        let name = call.ledger.name
        if frame.type == Type.reset { return takeReset(frame, call) }
        referee.expect(!call.isOver, "\(name) was sent \(frame) after its end")
        if frame.type == Type.headers {
            referee.expect(frame.fields["error"] == nil, "\(name) was sent unreadable headers")
            if call.status == nil {
                call.status = frame.fields[":status"] ?? ""
                checkHead(frame, call)
            } else {
                referee.expect(frame.isEnd, "\(name) was sent \(frame) after the head of its response")
            }
        } else {
            referee.expect(call.status != nil, "\(name) was sent \(frame) before the head of its response")
            call.body += frame.payload
            if !call.form.isPlain { takeMessages(call) } else { takeRecords(call) }
        }
        guard frame.isEnd else { return }
        call.isOver = true
        end(call, frame)
        // A client that has the response need not send the rest of its request; a broker that does not want the rest
        // says so too.
        if chance.isOne(in: 2) { link.reset(frame.stream) }
    }

    private func takeReset(_ frame: Received, _ call: Call) {
        let isCrossing = call.ledger.isCancelled || call.isForsaken
        referee.expect(
            call.isOver || isCrossing, "\(call.ledger.name) was reset before its end: \(frame.code)")
        call.isOver = true
    }

    private func checkHead(_ frame: Received, _ call: Call) {
        guard !call.form.isPlain else { return call.id = frame.fields["forebay-subscription"] }
        referee.expect(
            call.status == "200" && frame.fields["content-type"] == "application/grpc",
            "\(call.ledger.name) was answered with \(frame)")
        referee.expect(
            frame.isEnd == (frame.fields["grpc-status"] != nil), "\(call.ledger.name) was answered with \(frame)")
    }

    /// Takes complete gRPC messages from the body.
    private func takeMessages(_ call: Call) {
        var start = 0
        while call.body.count - start >= 5 {
            let length = Int(bigEndian(call.body[(start + 1)...].prefix(4)))
            guard call.body.count - start >= 5 + length else { break }
            referee.expect(call.body[start] == 0, "\(call.ledger.name) was sent a message with an invalid prefix")
            let message = Array(call.body[start + 5..<start + 5 + length])
            start += 5 + length
            guard !call.isForsaken else { continue }
            do {
                try message.withUnsafeBytes { try takeMessage($0, call) }
            } catch {
                referee.fail("\(call.ledger.name) was sent an unreadable message: \(error)")
            }
        }
        call.body.removeFirst(start)
    }

    private func takeMessage(_ bytes: UnsafeRawBufferPointer, _ call: Call) throws(GRPCError) {
        switch (call.form, call.ledger) {
        case (.subscribe, let ledger as SubscriberLedger): try takeDelivery(bytes, ledger, call)
        case (.channel, let ledger as ChannelLedger): take(try PublishResponse(bytes), ledger)
        case (.single, let ledger as AcknowledgedLedger):
            let response = try PublishOneResponse(bytes)
            acknowledge(ledger, response.sequence, response.epoch)
        case (.control, _): call.ledger.item(nil, [])
        default: call.ledger.item(nil, Array(try AdminAnswer.json(bytes)))
        }
    }

    // Subscriptions

    private func takeDelivery(
        _ bytes: UnsafeRawBufferPointer, _ ledger: SubscriberLedger, _ call: Call
    ) throws(GRPCError) {
        var response = try ReceivedMessages(bytes)
        // A subscription to a pattern begins without an epoch, and each of its responses has that of one topic.
        let isPattern = ledger is PatternLedger
        if call.epoch == 0 || isPattern {
            call.epoch = response.epoch
            referee.expect(call.epoch != 0 || isPattern, "\(ledger.name) was answered without an epoch")
        }
        referee.expect(
            response.epoch == call.epoch, "\(ledger.name) of epoch \(call.epoch) received epoch \(response.epoch)")
        // Losses are reported once, with the first message.
        var dropped = response.dropped
        while let message = try response.next() {
            var carried = ByteBuffer()
            var scratch = PublishedMessage()
            try message.appendMetadata(&scratch, limit: 1000, into: &carried)
            ledger.item(
                MessagePosition(
                    epoch: response.epoch, sequence: message.sequence, dropped: dropped,
                    carried: Array(carried.readable),
                    topic: isPattern ? String(decoding: message.topic, as: UTF8.self) : nil),
                Array(message.payload))
            dropped = 0
        }
        if let end = response.ended {
            takeEnd(end, ledger)
            dropped = 0
        }
        referee.expect(dropped == 0, "\(ledger.name) received a loss of \(dropped) without a message")
        checkCredit(response.outstandingCredit, ledger, call)
    }

    /// Checks that the broker's outstanding credit plus the messages delivered matches what has been requested so far.
    private func checkCredit(_ outstanding: UInt64, _ ledger: SubscriberLedger, _ call: Call) {
        if outstanding >= UInt64(SubscriberLedger.everything) {
            return referee.expect(ledger.isUnbounded, "\(ledger.name) is unbounded only at the broker")
        }
        let credit = outstanding + UInt64(ledger.received)
        referee.expect(
            credit <= UInt64(ledger.asked) && credit >= call.credit,
            "\(ledger.name) was reported \(outstanding) credit left after \(ledger.received) messages; it requested "
                + "\(ledger.asked), and \(call.credit) was reported before")
        call.credit = credit
    }

    // Publishers

    private func take(_ response: PublishResponse, _ ledger: ChannelLedger) {
        let count = Int(clamping: response.acceptedCount)
        if count == ledger.accepted {
            referee.expect(
                response.acknowledgedSequence == ledger.last,
                "\(ledger.name) was acknowledged \(response.acknowledgedSequence) after \(ledger.last), but nothing new"
            )
            referee.expect(response.grantedCredit > 0, "\(ledger.name) received an empty response")
        } else {
            ledger.item(
                (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) },
                Array(String(response.acknowledgedSequence).utf8))
        }
        if response.grantedCredit > 0 { ledger.granted(Int(clamping: response.grantedCredit)) }
    }

    func acknowledge(_ ledger: AcknowledgedLedger, _ sequence: UInt64, _ epoch: UInt64) {
        referee.expect(link.hasEnded(ledger.stream), "\(ledger.name) was acknowledged before its request had ended")
        ledger.item(nil, Array(String(sequence).utf8))
        let place = journal.messages[ledger.number].place
        referee.expect(
            epoch != 0 && place?.epoch ?? epoch == epoch,
            "\(ledger.name) was acknowledged in epoch \(epoch), and is at \(place.map { "\($0)" } ?? "")")
    }

    // Ends

    /// Notes an error that a time limit may have caused: requests have to be complete in time, and simulated time may
    /// leap.
    func noteLimit(_ error: String?, _ ledger: StreamLedger) {
        if isHurried, error?.contains(" within 30 s") == true { ledger.isMistaken = true }
    }

    private func end(_ call: Call, _ frame: Received) {
        let ledger = call.ledger
        if call.form.isPlain { return endPlain(call) }
        referee.expect(call.body.isEmpty, "\(ledger.name) was ended in the middle of a message")
        guard let text = frame.fields["grpc-status"], let status = Int(text) else {
            return referee.fail("\(ledger.name) was ended without a status: \(frame)")
        }
        let error = status == 0 ? nil : GRPCMessageText.decode(frame.fields["grpc-message"] ?? "")
        guard !call.isForsaken else {
            (ledger as? ChannelLedger)?.hasEndedTopic = status == 0
            return
        }
        noteLimit(error, ledger)
        guard let ledger = ledger as? SubscriberLedger else { return ledger.ended(nil, error) }
        let lost = frame.fields["forebay-dropped"].flatMap { UInt64($0) } ?? 0
        let end = frame.fields["forebay-end"]
        let ends = [0: ["completed", "credit-spent"], 8: ["overflow"], 10: ["failed"]]
        let isKnown = end.map { ends[status]?.contains($0) == true } ?? (status != 0 && status != 10)
        referee.expect(isKnown, "\(ledger.name) was ended with status \(status) as \(end ?? "nothing")")
        if let error, end != nil {
            referee.expect(
                ledger.agrees(error, lost: lost),
                "\(ledger.name) received a loss of \(lost) in a trailer, but the error: \(error)")
        }
        ledger.ended(error, lost: lost, isSpent: end == "credit-spent")
    }
}
