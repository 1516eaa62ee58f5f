// HTTPInputs: HTTP/2 events of a peer (requests, pieces of bodies, ends) and the exchanges they belong to.

import Bytes
import ForebayWire
import HTTP2

final class HTTPInputs: ShardPart {
    let connections: ConnectionTable
    let peers: PeerState
    let reading: Reading
    let httpResponses: HTTPResponses
    let delivery: Delivery
    let ends: StreamEnds
    let connectionEnds: ConnectionEnds
    let httpLogins: HTTPLogins
    let httpCalls: HTTPCalls
    let httpAdmin: HTTPAdmin
    let plainRequests: PlainRequests

    init(
        _ context: ShardContext, _ connections: ConnectionTable, _ peers: PeerState, _ reading: Reading,
        _ httpResponses: HTTPResponses, _ delivery: Delivery, _ ends: StreamEnds, _ connectionEnds: ConnectionEnds,
        _ httpLogins: HTTPLogins, _ httpCalls: HTTPCalls, _ httpAdmin: HTTPAdmin, _ plainRequests: PlainRequests
    ) {
        self.connections = connections
        self.peers = peers
        self.reading = reading
        self.httpResponses = httpResponses
        self.delivery = delivery
        self.ends = ends
        self.connectionEnds = connectionEnds
        self.httpLogins = httpLogins
        self.httpCalls = httpCalls
        self.httpAdmin = httpAdmin
        self.plainRequests = plainRequests
        super.init(context)
    }

    func handle(_ event: HTTPEvent, on connection: Connection, _ http: HTTPConnection, now: Instant) {
        switch event {
        case .request(let stream, let head, let complete):
            request(connection, http, stream, head, complete: complete, now: now)
        case .data(let stream, let handle, let bytes):
            if let exchange = http.exchange(at: handle) {
                if exchange.request.ticket != nil, exchange.plain == nil {
                    httpCalls.keep(bytes, of: exchange, http, now: now)
                } else if exchange.method?.isReflection == true {
                    return httpAdmin.takeReflection(bytes, for: exchange, http, now: now)
                } else {
                    take(bytes, for: exchange, http, now: now)
                }
            }
            // Credit limits what the engine takes, so the windows need not.
            http.consume(stream, bytes.count)
        case .complete(_, let handle, _):
            guard let exchange = http.exchange(at: handle) else { return }
            exchange.request.isHalfClosed = true
            if let plain = exchange.plain { return plainRequests.bodyEnded(exchange, plain, now: now) }
            httpCalls.halfClosed(exchange, now: now)
        case .reset(_, let handle, _):
            guard let exchange = http.exchange(at: handle) else { return }
            exchange.finish()
            httpCalls.leave(exchange, .cancelled, now: now)
            http.discard(exchange)
            connections.noteRoom(connection)
        case .closed(_, let handle):
            guard let exchange = http.exchange(at: handle) else { return }
            http.discard(exchange)
            connections.noteRoom(connection)
        case .writable(_, let handle):
            guard let exchange = http.exchange(at: handle) else { return }
            exchange.isStalled = false
            switch exchange.bound {
            case .some(let bound) where bound.kind == .subscriber:
                let subscriber = bound.asSubscriber
                if subscriber.hasJoined { delivery.deliver(subscriber, now: now) }
            case .some(let bound) where bound.kind == .pattern:
                delivery.patterns.serve(bound.asPattern, now: now)
            case .some, nil: break
            }
            connections.flush(connection)
        // The latter three occur only on clients.
        case .pong, .response, .closing, .worked:
            break
        case .fatal(let error):
            lose(connection, reason: error.message, now: now)
        case .closedByPeer(let error):
            connectionEnds.close(connection, reason: "the peer ended it: \(error.message)", now: now)
        }
    }

    /// Ends a connection whose session has failed: its last frames are written, and it is closed.
    private func lose(_ connection: Connection, reason: String, now: Instant) {
        connection.lifecycle.beginClosing(deadline: now.monotonic + limits.closeTime, reason: reason)
        ends.dropStreams(of: connection, now: now)
        counters.protocolErrors += 1
        log(.debug, "connection refused", [("peer", connection.peer), ("reason", reason)])
        reading.updateReading(connection)
        // The last frames may have been sent already: some errors are reported after their GOAWAY is written.
        if connection.isWritten {
            connectionEnds.close(connection, reason: "closed after an error", now: now)
        } else {
            connections.flush(connection)
        }
    }

    /// Whether a request is a gRPC call, as the beginning of its content type shows. Under plain HTTP's paths that is
    /// only the type of a message.
    private static func isCall(_ head: RequestHead) -> Bool {
        guard let type = head.fields.first("content-type") else { return false }
        return GRPCCall.isMeant([("content-type", String(decoding: type, as: UTF8.self))])
            && !head.path.starts(with: PlainRequest.root)
    }

    private func request(
        _ connection: Connection, _ http: HTTPConnection, _ stream: UInt32, _ head: RequestHead, complete: Bool,
        now: Instant
    ) {
        // The peer's windows hold responses back, or the peer waits for them; pausing reading would help in neither
        // case.
        if httpResponses.hasManyRequests(http), !head.path.starts(with: PlainRequest.subscriptions) {
            return refuse(stream, isCall: HTTPInputs.isCall(head), http, connection)
        }
        guard HTTPInputs.isCall(head) else {
            let request = plainRequest(head)
            return plainRequests.plainRequest(connection, http, stream, request, complete: complete, now: now)
        }
        var fields: [(name: String, value: String)] = []
        for index in 0..<head.fields.count {
            let (name, value) = head.fields[index]
            fields.append((String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self)))
        }
        let call: GRPCCall
        do throws(GRPCHeadRefusal) {
            call = try GRPCCall.parse(
                method: String(decoding: head.method, as: UTF8.self), path: String(decoding: head.path, as: UTF8.self),
                headers: fields)
        } catch {
            http.transport.answer(stream, error.headers)
            connections.flush(connection)
            return
        }
        let exchange = http.open(
            stream, connection, .call(call.method), timeout: call.timeout, now: now.monotonic,
            limit: call.method.isReflection ? Reflection.longestRequest : limits.messageFrame)
        if draining, !call.method.isHealth {
            httpResponses.finish(exchange, Refusal.draining)
        } else if call.timeout == 0 {
            httpCalls.refuse(
                exchange, GRPCError(.deadlineExceeded, "The call's grpc-timeout is 0; use a longer one."), now: now)
        } else {
            exchange.request.isHalfClosed = complete
            httpLogins.begin(call, exchange, http, fields, now: now)
        }
    }

    /// Refuses a request with a response that is only a head: it needs no window, and nothing of it is kept.
    private func refuse(_ stream: UInt32, isCall: Bool, _ http: HTTPConnection, _ connection: Connection) {
        reached(.memory)
        let refusal = Refusal.limit(
            "The broker's memory is full, and the connection has \(http.requests) unfinished "
                + "requests; send fewer at a time.")
        count(refusal.word)
        if isCall {
            http.transport.answer(stream, GRPCHeads.trailersOnly(refusal.grpcError))
        } else {
            http.transport.respond(stream, status: refusal.problem.status, fields: HTTPFields(), complete: true)
        }
        connections.flush(connection)
    }

    private func plainRequest(_ head: RequestHead) -> PlainRequest {
        var request = PlainRequest(
            method: String(decoding: head.method, as: UTF8.self), target: String(decoding: head.path, as: UTF8.self),
            authority: head.authority.isEmpty ? nil : String(decoding: head.authority, as: UTF8.self),
            limits: peers.plainProtocol.limits)
        for index in 0..<head.fields.count { request.add(head.fields[index].name, head.fields[index].value) }
        return request
    }

    private func take(_ bytes: UnsafeRawBufferPointer, for exchange: Exchange, _ http: HTTPConnection, now: Instant) {
        guard !exchange.isFinished else { return }
        if let plain = exchange.plain { return plainRequests.take(bytes, for: exchange, plain, http) }
        httpCalls.takeCall(bytes, for: exchange, http, now: now)
    }

    /// Refuses exchanges whose time has expired.
    func expire(_ http: HTTPConnection, now: Instant) {
        guard http.deadlines.take(now: now.monotonic) else { return }
        for exchange in http.exchanges.all where !exchange.isFinished || exchange.response == .lingering {
            let deadline = exchange.deadline ?? .max
            let messageDue = exchange.request.messageDue?.time ?? .max
            if deadline <= now.monotonic {
                expire(exchange, http, now: now)
            } else if messageDue <= now.monotonic {
                let seconds = limits.reassemblyTime / Limits.second
                reached(.reassemblyTime)
                let reason =
                    exchange.request.awaitsEnd
                    ? "The call was not half-closed within \(seconds) s of its message; half-close it after that."
                    : "A message was not completed within \(seconds) s; send each message without long pauses."
                httpCalls.refuse(exchange, GRPCError(.deadlineExceeded, reason), now: now)
            } else if Swift.min(deadline, messageDue) < .max {
                http.deadlines.note(Swift.min(deadline, messageDue))
            }
        }
    }

    private func expire(_ exchange: Exchange, _ http: HTTPConnection, now: Instant) {
        if exchange.plain != nil {
            plainRequests.bodyLate(exchange, now: now)
        } else if exchange.bound?.kind == .listStream, !exchange.body.isEmpty {
            // A status would come after rows that the peer may never read, and lists are no longer counted then.
            httpCalls.leave(exchange, .cancelled, now: now)
            http.transport.cancel(exchange)
            http.discard(exchange)
            connections.noteRoom(exchange.connection)
            connections.flush(exchange.connection)
        } else {
            httpCalls.refuse(exchange, GRPCError(.deadlineExceeded, "The call's grpc-timeout has expired."), now: now)
        }
    }
}
