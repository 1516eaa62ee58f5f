// GRPCConnection+Events: turns the broker's bytes into events. A chunk of DATA is acknowledged once its complete
// messages have been pulled and an incomplete last one, if any, has been put aside.

import Bytes
import ForebayWire
import HTTP2
import RSocket

extension GRPCConnection {
    /// The unhandled DATA of a call.
    struct Chunk {
        let call: ClientCall
        let count: Int
        var rest: UnsafeRawBufferPointer
        /// The subscription's response whose messages are being read.
        var response: ReceivedMessages?
    }

    public func next() throws(ClientError) -> ClientEvent? {
        if case .dead(let error) = state { throw error }
        if let event = pending {
            pending = nil
            return event
        }
        if let event = announcement {
            announcement = nil
            return event
        }
        while true {
            if let event = try nextMessage() { return event }
            if let event = session.next() {
                if let next = try handle(event) { return next }
            } else if try !takeIncoming() {
                return nil
            }
        }
    }

    /// Passes the received bytes to the session. Returns false if there are none.
    private func takeIncoming() throws(ClientError) -> Bool {
        reading.removeAll()
        guard !incoming.isEmpty else { return false }
        if !hasHeard {
            let bytes = incoming.readable
            if bytes.starts(with: "HTTP/".utf8) {
                throw die(ClientError(http1: bytes, insteadOf: "HTTP/2 with gRPC"))
            }
            if bytes.count < 5, "HTTP/".utf8.starts(with: bytes) { return false }
            hasHeard = true
        }
        swap(&reading, &incoming)
        session.feed(reading.readable, now: time)
        return true
    }

    // MARK: Messages

    /// The next event from the current chunk.
    private func nextMessage() throws(ClientError) -> ClientEvent? {
        while let call = chunk?.call {
            do throws(GRPCError) {
                if let message = try chunk?.response?.next() { return try deliver(message, call) }
                chunk?.response = nil
                if let message = try call.deframer.next(&chunk!.rest) {
                    if let event = try receive(message, call) { return event }
                } else {
                    let count = chunk?.count ?? 0
                    chunk = nil
                    if let event = hold(call) { return event }
                    session.consume(call.id.value, count)
                }
            } catch {
                if error.status == .resourceExhausted { return tooLarge(call) }
                throw refuse(error.sentence)
            }
        }
        return nil
    }

    /// Keeps the rest of a chunk until its message is complete.
    private func hold(_ call: ClientCall) -> ClientEvent? {
        let bytes = call.deframer.heldBytes
        held += bytes - call.held
        call.held = bytes
        return held > limits.reassembly ? tooLarge(call) : nil
    }

    private func tooLarge(_ call: ClientCall) -> ClientEvent {
        fail(call, .messageTooLarge, "A message is larger than this client's limit of \(limits.message) bytes.")
    }

    /// Ends the call from this side.
    private func fail(_ call: ClientCall, _ code: ClientError.Code, _ text: String) -> ClientEvent {
        session.reset(call.id.value, .cancel)
        discard(call)
        return failed(call, ClientError(code, text))
    }

    private func deliver(_ message: ReceivedMessage, _ call: ClientCall) throws(GRPCError) -> ClientEvent {
        guard call.demand.take() else {
            return fail(call, .overdelivered, "The broker sent more messages than were requested.")
        }
        guard message.payload.count <= limits.message else { return tooLarge(call) }
        let info = MessageInfo(
            epoch: call.epoch, sequence: message.sequence, timestamp: message.timestamp,
            dropped: call.dropped,
            topic: message.topic.isEmpty ? nil : String(decoding: message.topic, as: UTF8.self))
        call.dropped = 0
        guard case .subscription(meta: true) = call.kind else {
            return .message(call.id, .init(metadata: nil, data: message.payload))
        }
        metadata.removeAll()
        if message.isCarrying { try message.appendMetadata(&scratch, limit: limits.message, into: &metadata) }
        return .message(call.id, .init(metadata: metadata.readable, data: message.payload, info: info))
    }

    /// Handles a complete gRPC message.
    private func receive(_ bytes: UnsafeRawBufferPointer, _ call: ClientCall) throws(GRPCError) -> ClientEvent? {
        switch call.kind {
        case .subscription:
            let response = try ReceivedMessages(bytes)
            if let end = response.ended { return .topicEnded(call.id, end) }
            call.dropped = call.dropped.addingClamped(response.dropped)
            if response.epoch != 0 { call.epoch = response.epoch }
            chunk?.response = response
            guard response.nextSequence > 0 else { return nil }
            return .opened(call.id, OpeningPosition(epoch: response.epoch, next: response.nextSequence))
        case .channel: return progress(try PublishResponse(bytes), call)
        case .publish:
            let response = try PublishOneResponse(bytes)
            return .acknowledged(
                call.id,
                Acknowledgement(
                    sequence: response.sequence, accepted: 1, epoch: response.epoch, isDuplicate: response.duplicate))
        case .rows: return .message(call.id, .init(metadata: nil, data: try AdminAnswer.json(bytes)))
        case .ping: return nil
        }
    }

    /// The event for a response with credit, acknowledgements, or both.
    private func progress(_ response: PublishResponse, _ call: ClientCall) -> ClientEvent? {
        var event: ClientEvent?
        if response.acceptedCount > call.accepted {
            call.accepted = response.acceptedCount
            event = .acknowledged(
                call.id,
                Acknowledgement(
                    sequence: response.acknowledgedSequence, accepted: response.acceptedCount,
                    isDuplicate: response.duplicate))
        }
        guard response.grantedCredit > 0, call.sends else { return event }
        call.credit.add(response.grantedCredit)
        pending = event
        return .granted(call.id, n: UInt32(clamping: response.grantedCredit))
    }

    // MARK: The session's events

    private func handle(_ event: HTTPEvent) throws(ClientError) -> ClientEvent? {
        switch event {
        case .response(let stream, _, let head, let complete):
            guard let call = sink.calls[StreamID(stream)] else { return nil }
            try check(head)
            return complete ? end(call, head.fields) : nil
        case .data(let stream, _, let bytes):
            if let call = sink.calls[StreamID(stream)] {
                chunk = Chunk(call: call, count: bytes.count, rest: bytes)
            } else {
                session.consume(stream, bytes.count)
            }
            return nil
        case .complete(let stream, _, let trailers):
            guard let call = sink.calls[StreamID(stream)] else { return nil }
            return end(call, trailers)
        case .reset(let stream, _, let code):
            guard let call = sink.calls[StreamID(stream)] else { return nil }
            discard(call)
            // The broker has not processed the call (RFC 9113, 8.7); the call can be made on the next connection.
            if case .closing(let why) = state, code == .refusedStream {
                return failed(call, ClientError(.unavailable, why))
            }
            return failed(call, ClientError(reset: code))
        case .closing(let why):
            // Without a reason, this is the notice that precedes a shutdown.
            let text = why.isEmpty ? "The broker is shutting down; connect again later." : why
            if case .open = state { state = .closing(text) }
            return .closing(text)
        case .fatal(let error):
            guard session.isOpened else {
                throw die(
                    ClientError(
                        .protocolViolation, "The server does not speak HTTP/2 with gRPC; check the port."))
            }
            throw refuse(error.message)
        case .closedByPeer(let error):
            let text = error.message.isEmpty ? "HTTP/2 error \(error.code.rawValue)." : error.message
            throw die(ClientError(.connectionError, text))
        case .request, .closed, .writable, .pong, .worked: return nil
        }
    }

    /// Checks that the response is gRPC.
    private func check(_ head: ResponseHead) throws(ClientError) {
        let type = head.fields.first("content-type") ?? UnsafeRawBufferPointer(start: nil, count: 0)
        guard head.status != 200 || !type.starts(with: "application/grpc".utf8) else { return }
        throw refuse("A gRPC call was answered with HTTP status \(head.status).")
    }

    /// Handles the end of a call by the broker.
    private func end(_ call: ClientCall, _ trailers: HTTPFieldsView?) -> ClientEvent? {
        let outcome = trailers.flatMap { CallOutcome($0) }
        // If the broker does not reset an ended call by itself, this reports that we have ended it too.
        session.finish(call.id.value)
        let isCut = call.deframer.heldBytes > 0
        discard(call)
        guard let outcome else {
            return failed(call, ClientError(.otherStatus("UNKNOWN"), "The call ended without a status."))
        }
        guard outcome.status == .ok else { return failed(call, ClientError(outcome)) }
        guard !isCut else {
            return failed(call, ClientError(.badAnswer, "The broker ended the call in the middle of a message."))
        }
        if case .ping(let data) = call.kind { return pong(data) }
        let dropped = call.dropped.addingClamped(outcome.dropped)
        guard call.epoch != 0 else { return .completed(call.id, dropped: dropped) }
        let info = MessageInfo(epoch: call.epoch, sequence: 0, timestamp: 0, dropped: dropped)
        return .completed(call.id, dropped: dropped, info: info)
    }

    /// The caller does not know about a ping's stream, so a failed ping is reported as a `.pong` too.
    private func failed(_ call: ClientCall, _ error: ClientError) -> ClientEvent {
        if case .ping(let data) = call.kind { return pong(data) }
        return .failed(call.id, error)
    }

    /// Any answer, even an error, is a keepalive. The event points to memory that is valid until the next `.pong`.
    private func pong(_ data: [UInt8]) -> ClientEvent {
        metadata.removeAll()
        metadata.append(data)
        return .pong(metadata.readable)
    }
}
