// Responses: encodes what the engine sends to a peer, in the peer's protocol. Everything in a connection's output
// except messages and their delivery is written here.
//
// Responses to the peer's requests go ahead of messages. The end of a subscription or list goes after the messages or
// rows already handed over for it.

import Bytes
import ForebayWire
import HTTP2
import Replay
import RSocket

final class Responses: ShardPart {
    let connections: ConnectionTable
    let peers: PeerState
    let httpResponses: HTTPResponses

    init(_ context: ShardContext, _ connections: ConnectionTable, _ peers: PeerState, _ httpResponses: HTTPResponses) {
        self.connections = connections
        self.peers = peers
        self.httpResponses = httpResponses
        super.init(context)
    }

    // To a connection

    /// Ends the connection with this error, and closes it once the error is written.
    func sendFatal(_ error: RSocketError, on connection: Connection) {
        if let http = connection.http {
            http.transport.goAway(error.message)
            return
        }
        connection.output.connectionControl {
            FrameWriter.error(stream: 0, code: error.code, message: error.message, into: &$0)
        }
    }

    /// Asks the peer to respond, to find out whether it is still there.
    func sendProbe(on connection: Connection) {
        if let http = connection.http {
            http.transport.ping(moment.monotonic)
            connections.flush(connection)
            return
        }
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        let position = position(of: connection)
        connection.output.connectionControl {
            FrameWriter.keepalive(respond: true, position: position, data: none, into: &$0)
        }
        connections.flush(connection)
    }

    /// The position up to which the broker has received a resumable peer's output; 0 for all other peers.
    func position(of connection: Connection) -> UInt64 {
        connection.session == nil ? 0 : connection.rsocket.received
    }

    /// Refuses a request on `stream`, or fails a stream that carries neither messages nor rows.
    func sendRefusal(_ refusal: Refusal, on connection: Connection, stream: UInt32) {
        if let http = connection.http {
            if let exchange = http.exchange(of: stream) { httpResponses.finish(exchange, refusal) }
            return
        }
        connection.output.control {
            FrameWriter.error(stream: stream, code: refusal.code, message: refusal.message, into: &$0)
        }
        count(refusal.word)
        connections.flush(connection)
    }

    // To a publisher

    /// Grants `n` more messages.
    func sendCredit(_ n: UInt64, to publisher: Publisher) {
        if let exchange = publisher.exchange {
            let response = PublishResponse(
                grantedCredit: n, acknowledgedSequence: publisher.known.sequence.value,
                acceptedCount: publisher.known.accepted, duplicate: publisher.unsent?.isDuplicate ?? false)
            httpResponses.sendMessage(exchange) { response.append(to: &$0) }
            publisher.unsent = nil
            return
        }
        publisher.connection.output.control { FrameWriter.requestN(stream: publisher.stream, n: UInt32(n), into: &$0) }
        connections.flush(publisher.connection)
    }

    /// Acknowledges a channel's messages up to `sequence`, `accepted` in all. `complete` ends the channel.
    func sendAcknowledgement(
        _ sequence: SequenceNumber, accepted: UInt64, isDuplicate: Bool, to publisher: Publisher, complete: Bool
    ) {
        if let exchange = publisher.exchange {
            let response = PublishResponse(
                grantedCredit: 0, acknowledgedSequence: sequence.value, acceptedCount: accepted,
                duplicate: isDuplicate)
            httpResponses.sendMessage(exchange) { response.append(to: &$0) }
            if complete { httpResponses.finish(exchange, .ok) }
            return
        }
        peers.scratch.removeAll()
        AcceptedMetadata.append(accepted, to: &peers.scratch)
        if isDuplicate { DuplicateMetadata.append(to: &peers.scratch) }
        writePayload(
            sequence, on: publisher.connection, stream: publisher.stream, complete: complete,
            metadata: peers.scratch.readable)
    }

    /// Completes a channel whose messages have all been accepted. No sequence is sent: the client gave no credit for
    /// it.
    func sendFinished(to publisher: Publisher) {
        if let exchange = publisher.exchange { return httpResponses.finish(exchange, .ok) }
        publisher.connection.output.control { Responses.complete(publisher.stream, metadata: nil, into: &$0) }
        connections.flush(publisher.connection)
    }

    /// Acknowledges a single publish.
    func sendPublished(
        _ sequence: SequenceNumber, epoch: UInt64, isDuplicate: Bool, on connection: Connection, stream: UInt32
    ) {
        if let http = connection.http {
            guard let exchange = http.exchange(of: stream) else { return }
            if let plain = exchange.plain {
                let answer = peers.plainProtocol.answerPublished(
                    sequence: sequence.value, epoch: epoch, isDuplicate: isDuplicate, origin: plain.request.origin)
                return httpResponses.answer(exchange, answer)
            }
            let response = PublishOneResponse(sequence: sequence.value, epoch: epoch, duplicate: isDuplicate)
            httpResponses.sendMessage(exchange) { response.append(to: &$0) }
            return httpResponses.finish(exchange, .ok)
        }
        guard isDuplicate else {
            return writePayload(sequence, on: connection, stream: stream, complete: true, metadata: nil)
        }
        peers.scratch.removeAll()
        DuplicateMetadata.append(to: &peers.scratch)
        writePayload(
            sequence, on: connection, stream: stream, complete: true, metadata: peers.scratch.readable)
    }

    /// Writes a PAYLOAD whose data is a sequence.
    private func writePayload(
        _ sequence: SequenceNumber, on connection: Connection, stream: UInt32, complete: Bool,
        metadata: UnsafeRawBufferPointer?
    ) {
        Decimal.with(sequence.value) { digits in
            connection.output.control {
                FrameWriter.payload(
                    stream: stream, next: true, complete: complete, metadata: metadata, data: digits,
                    fragment: Limits.fragment, into: &$0)
            }
        }
        connections.flush(connection)
    }

    // To a subscriber

    /// Confirms that the subscription is in effect. RSocket has no frame for that.
    func sendJoined(to subscriber: Subscriber) {
        guard let exchange = subscriber.exchange else {
            if subscriber.options.opening { sendOpening(to: subscriber) }
            return
        }
        if let plain = exchange.plain { return httpResponses.begin(exchange, plain, of: subscriber) }
        let tail = SubscribeTail(
            outstandingCredit: subscriber.credit.reported, epoch: subscriber.view.epoch, dropped: 0,
            nextSequence: subscriber.options.opening ? subscriber.opening.next : 0)
        httpResponses.sendMessage(exchange) { tail.append(to: &$0) }
    }

    /// Confirms that a subscription to a pattern is in effect. Each message names its topic's epoch.
    func sendBegun(_ subscription: PatternSubscription) {
        guard let exchange = subscription.exchange else { return }
        if let plain = exchange.plain { return httpResponses.begin(exchange, plain, of: subscription) }
        let tail = SubscribeTail(outstandingCredit: subscription.credit.reported, epoch: 0, dropped: 0)
        httpResponses.sendMessage(exchange) { tail.append(to: &$0) }
    }

    /// Sends a PAYLOAD with the position as metadata and without data.
    private func sendOpening(to subscriber: Subscriber) {
        subscriber.payForOpening()
        var metadata = ByteBuffer()
        subscriber.opening.appendMetadata(into: &metadata)
        // A client that does not read and only subscribes and cancels must not cause unlimited output.
        queueAnswer(on: subscriber.connection) {
            FrameWriter.payload(
                stream: subscriber.stream, next: true, complete: false, metadata: metadata.readable,
                data: UnsafeRawBufferPointer(start: nil, count: 0), fragment: Limits.fragment, into: &$0)
        }
    }

    /// Ends a subscription that completed; `lost` messages were dropped since the last one delivered.
    func sendCompletion(to subscriber: Subscriber, lost: UInt64) {
        if let exchange = subscriber.exchange {
            if let plain = exchange.plain {
                return httpResponses.complete(
                    exchange, plain, StreamLoss(dropped: lost, restarts: subscriber.hasUnreportedGap))
            }
            return httpResponses.finish(exchange, .ok, end: .completed, dropped: lost)
        }
        var metadata: [UInt8]?
        if subscriber.options.meta, lost > 0 || subscriber.hasUnreportedGap {
            let info = MessageMetadata(
                epoch: subscriber.view.epoch, sequence: subscriber.view.log.end.advanced(by: -1),
                timestamp: moment.wall, droppedBefore: lost)
            metadata = info.bytes
        }
        queueAnswer(on: subscriber.connection) { buffer in
            guard let metadata else { return Responses.complete(subscriber.stream, metadata: nil, into: &buffer) }
            metadata.withUnsafeBytes { Responses.complete(subscriber.stream, metadata: $0, into: &buffer) }
        }
    }

    /// Fails a subscription or a list, after everything already handed over for it.
    func sendFailure(_ refusal: Refusal, to stream: BoundStream) {
        if let exchange = stream.exchange { return httpResponses.finish(exchange, refusal) }
        queueAnswer(on: stream.connection) {
            FrameWriter.error(stream: stream.stream, code: refusal.code, message: refusal.message, into: &$0)
        }
        count(refusal.word)
    }

    // To the requester of a list or a control call

    func sendRow(_ row: Description, to listStream: ListStream) {
        if let exchange = listStream.exchange { return httpResponses.sendMessage(exchange) { row.append(to: &$0) } }
        var text = row.json
        text.withUTF8 { data in
            queue(on: listStream.connection) {
                FrameWriter.payload(
                    stream: listStream.stream, next: true, complete: false, metadata: nil,
                    data: UnsafeRawBufferPointer(data), fragment: Limits.fragment, into: &$0)
            }
        }
    }

    /// Ends a list that is complete.
    func sendCompletion(to listStream: ListStream) {
        if let exchange = listStream.exchange { return httpResponses.finish(exchange, .ok) }
        queueAnswer(on: listStream.connection) { Responses.complete(listStream.stream, metadata: nil, into: &$0) }
    }

    /// Sends the answer to a control call.
    /// - Parameter description: nil if the call returns nothing but success.
    func sendAnswer(_ description: Description?, to call: BoundStream) {
        if let exchange = call.exchange {
            if let plain = exchange.plain {
                if let json = description?.json {
                    return httpResponses.answer(exchange, peers.plainProtocol.answer(json: json, to: plain.request))
                }
                // A request for credit, which either succeeds or fails.
                return httpResponses.answer(exchange, peers.plainProtocol.answerEmpty(to: plain.request))
            }
            httpResponses.sendMessage(exchange) { description?.append(to: &$0) }
            return httpResponses.finish(exchange, .ok)
        }
        var text = description?.json ?? ""
        text.withUTF8 { data in
            call.connection.output.control {
                FrameWriter.payload(
                    stream: call.stream, next: true, complete: true, metadata: nil,
                    data: UnsafeRawBufferPointer(data), fragment: Limits.fragment, into: &$0)
            }
        }
        connections.flush(call.connection)
    }

    // Helpers

    /// Appends COMPLETE without a message.
    private static func complete(_ stream: UInt32, metadata: UnsafeRawBufferPointer?, into out: inout ByteBuffer) {
        FrameWriter.payload(
            stream: stream, next: false, complete: true, metadata: metadata,
            data: UnsafeRawBufferPointer(start: nil, count: 0), fragment: Limits.fragment, into: &out)
    }

    /// Appends frames after the queued messages.
    private func queue(on connection: Connection, _ write: (inout ByteBuffer) -> Void) {
        peers.scratch.removeAll()
        write(&peers.scratch)
        connection.output.reserve(peers.scratch.count).copyMemory(from: peers.scratch.readable)
        connections.flush(connection)
    }

    /// Like `queue`, but for the opening or the end of a stream, which counts towards the control output that the peer
    /// must read.
    private func queueAnswer(on connection: Connection, _ write: (inout ByteBuffer) -> Void) {
        peers.scratch.removeAll()
        write(&peers.scratch)
        connection.output.answer(peers.scratch.readable)
        connections.flush(connection)
    }
}
