// RSocketRequester+Input: how a requester handles received frames.

import Bytes
import ForebayWire
import RSocket

extension RSocketRequester {
    /// Reports that the other side will send nothing more.
    mutating func receiveEnd() -> ClientError {
        if case .closing(let why) = state { return die(ClientError(.connectionError, why)) }
        if !hasHeard {
            return die(ClientError(.lost, "The server closed the connection without an answer; check the port."))
        }
        return die(ClientError(.lost, "The broker closed the connection without giving a reason."))
    }

    /// The next event; nil until a whole frame has arrived.
    /// - Throws: the error that ended the connection, from this call on.
    mutating func next() throws(ClientError) -> ClientEvent? {
        releaseDelivered()
        if case .dead(let error) = state { throw error }
        if let id = pendingEnd {
            pendingEnd = nil
            if let stream = streams[id] {
                end(stream)
                return .completed(id, dropped: 0)
            }
        }
        while true {
            let bytes = input.readable
            guard bytes.count >= 3 else { return nil }
            let length = bytes.u24(at: 0)
            if !hasHeard {
                if bytes.starts(with: "HTTP/".utf8) { throw die(ClientError(http1: bytes, insteadOf: "RSocket")) }
                // Interpreted as a length, these bytes would announce megabytes; wait for the two letters that decide.
                if bytes.count < 5, "HTTP/".utf8.starts(with: bytes) { return nil }
                hasHeard = true
            }
            guard bytes.count >= 3 + length else {
                if length > limits.frame { throw tooLong(length) }
                return nil
            }
            spent = 3 + length
            if let event = try handle(Frames.decode(bytes.slice(3..<3 + length))) { return event }
            releaseDelivered()
        }
    }

    private mutating func tooLong(_ length: Int) -> ClientError {
        die(
            ClientError(
                .protocolViolation,
                "The server does not speak RSocket, or sent a frame of \(length) bytes; the limit is \(limits.frame)."
            ))
    }

    mutating func releaseDelivered() {
        input.consume(spent)
        spent = 0
        if let stream = delivered {
            delivered = nil
            reassembling -= stream.assembled
            stream.discardFragments()
        }
    }

    private mutating func handle(_ frame: Inbound) throws(ClientError) -> ClientEvent? {
        switch frame {
        case .payload(let id, let payload): return receive(payload, on: id)
        case .requestN(let id, let n):
            guard let stream = streams[StreamID(id)], stream.sends, n > 0 else { return nil }
            stream.grant(n)
            return .granted(stream.id, n: n)
        case .cancel(let id):
            guard let stream = streams[StreamID(id)], stream.sends else { return nil }
            stream.endSending()
            removeIfEnded(stream)
            return .declined(stream.id)
        case .error(let id, let code, let text): return try receiveError(id, code, text)
        case .keepalive(let respond, let data):
            guard respond else { return .pong(data) }
            if output.count < limits.controlOutput {
                FrameWriter.keepalive(respond: false, position: 0, data: data, into: &output)
            }
            return nil
        case .request(let id, let answered):
            // A client serves no requests; a request without a stream id, or with one of ours, gets no answer.
            if answered, id != 0, id & 1 == 0 {
                FrameWriter.error(
                    stream: id, code: .rejected, message: "This client accepts no requests.", into: &output)
            }
            return nil
        case .ignored: return nil
        case .violation(let what):
            let text = "The server violated the protocol: \(what)"
            throw refuse(text)
        }
    }

    private mutating func receiveError(
        _ id: UInt32, _ code: UInt32, _ text: UnsafeRawBufferPointer
    ) throws(ClientError) -> ClientEvent? {
        let message = String(decoding: text, as: UTF8.self)
        if id != 0 {
            guard let stream = streams[StreamID(id)] else { return nil }
            remove(stream)
            return .failed(stream.id, ClientError(ClientError.Code(stream: code, message), message))
        }
        switch code {
        case 0x102:
            state = .closing(message)
            return .closing(message)
        // This is the wrong port, or another protocol version.
        case 2: throw die(ClientError(.protocolViolation, "The server answered: \(message)"))
        case 1, 3, 4: throw die(ClientError(.setupRejected, message))
        default: throw die(ClientError(.connectionError, message))
        }
    }

    private mutating func receive(_ payload: Inbound.Payload, on id: UInt32) -> ClientEvent? {
        guard let stream = streams[StreamID(id)], stream.receives else { return nil }
        if stream.isAssembling || payload.follows { return assemble(payload, stream) }
        let size = (payload.metadata?.count ?? 0) + payload.data.count
        guard size <= limits.message else { return tooLarge(stream) }
        return deliver(stream, payload, metadata: payload.metadata, data: payload.data)
    }

    /// Adds a fragment; returns the message with the last one.
    private mutating func assemble(_ payload: Inbound.Payload, _ stream: RSocketStream) -> ClientEvent? {
        let size = (payload.metadata?.count ?? 0) + payload.data.count
        guard stream.assembled + size <= limits.message, reassembling + size <= limits.reassembly else {
            return tooLarge(stream)
        }
        stream.isAssembling = true
        if let metadata = payload.metadata {
            stream.hasMetadata = true
            stream.metadata.append(metadata)
        }
        stream.data.append(payload.data)
        reassembling += size
        if payload.follows { return nil }
        delivered = stream
        return deliver(
            stream, payload, metadata: stream.hasMetadata ? stream.metadata.readable : nil, data: stream.data.readable)
    }

    private mutating func deliver(
        _ stream: RSocketStream, _ payload: Inbound.Payload, metadata: UnsafeRawBufferPointer?,
        data: UnsafeRawBufferPointer
    ) -> ClientEvent? {
        // Neither N nor C is illegal, but some peers send it for an empty item, so the frame counts as an item.
        let isMessage = payload.next || !payload.complete
        if isMessage, !stream.receiveMessage() {
            return fail(stream, .overdelivered, "The broker sent more messages than were requested.")
        }
        // N and C in one frame are two events; the next call returns the end.
        if isMessage, payload.complete { pendingEnd = stream.id }
        if isMessage, stream.awaitsOpening {
            stream.awaitsOpening = false
            if let position = metadata.flatMap({ OpeningPosition(metadata: $0) }) {
                return .opened(stream.id, position)
            }
        }
        if isMessage {
            guard stream.answers == .messages else { return acknowledge(stream, metadata, data) }
            return .message(stream.id, .init(metadata: metadata, data: data, ofPattern: stream.isOfPattern))
        }
        end(stream)
        let info = metadata.flatMap { MessageInfo(metadata: $0) }
        return .completed(stream.id, dropped: info?.dropped ?? 0, info: info)
    }

    /// Parses an acknowledgement, a sequence in decimal.
    private mutating func acknowledge(
        _ stream: RSocketStream, _ metadata: UnsafeRawBufferPointer?, _ data: UnsafeRawBufferPointer
    ) -> ClientEvent {
        guard let sequence = UInt64(String(decoding: data, as: UTF8.self)) else {
            return fail(stream, .badAnswer, "The broker sent an acknowledgement without a valid sequence.")
        }
        if stream.answers == .allAcknowledgements { requestN(stream.id, 1) }
        var acknowledgement = Acknowledgement(sequence: sequence)
        if let metadata { Self.read(metadata, into: &acknowledgement) }
        if stream.kind == .response { acknowledgement.accepted = 1 }
        return .acknowledged(stream.id, acknowledgement)
    }

    /// Reads what an acknowledgement's metadata says: how many of a channel's messages were accepted, and whether any
    /// is a duplicate.
    private static func read(_ metadata: UnsafeRawBufferPointer, into acknowledgement: inout Acknowledgement) {
        var entries = CompositeMetadata.Iterator(metadata)
        while let entry = try? entries.next() {
            if entry.name.elementsEqual(PublisherNumber.duplicateMime.utf8) {
                acknowledgement.isDuplicate = true
            } else if MimeType.matches(entry.name, "application/vnd.forebay.accepted"), entry.bytes.count >= 8 {
                acknowledgement.accepted = acknowledgement.accepted ?? entry.bytes.bigEndian(at: 0)
            }
        }
    }

    // MARK: Ends and look-ups

    private mutating func tooLarge(_ stream: RSocketStream) -> ClientEvent {
        let text = "A message is larger than this client's limit of \(limits.message) bytes."
        return fail(stream, .messageTooLarge, text)
    }

    /// Ends the stream from this side.
    private mutating func fail(_ stream: RSocketStream, _ code: ClientError.Code, _ text: String) -> ClientEvent {
        FrameWriter.cancel(stream: stream.id.value, into: &output)
        if pendingEnd == stream.id { pendingEnd = nil }
        remove(stream)
        return .failed(stream.id, ClientError(code, text))
    }

    /// Notes that the responder's half is complete.
    mutating func end(_ stream: RSocketStream) {
        stream.endReceiving()
        removeIfEnded(stream)
    }

    mutating func removeIfEnded(_ stream: RSocketStream) {
        if stream.isOver { remove(stream) }
    }

    mutating func remove(_ stream: RSocketStream) {
        streams.remove(stream)
        // A delivered message is released by the next call instead, since the event's bytes are in it.
        if delivered !== stream {
            reassembling -= stream.assembled
            stream.discardFragments()
        }
        stream.endSending()
    }

    mutating func die(_ error: ClientError) -> ClientError {
        state = .dead(error)
        streams.removeAll()
        return error
    }

    /// Reports a mistake to the broker, then ends the connection.
    private mutating func refuse(_ text: String) -> ClientError {
        FrameWriter.error(stream: 0, code: .connectionError, message: text, into: &output)
        return die(ClientError(.protocolViolation, text))
    }
}
