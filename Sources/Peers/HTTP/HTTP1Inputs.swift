// HTTP1Inputs: the driver's inputs and queries for connections that speak HTTP/1.1. A library in the driver handles the
// protocol's bytes. The engine receives whole heads and pieces of bodies, one request of a connection at a time.
//
//     speaksHTTP1 ─▶ ( request ─▶ body … ─▶ requestEnded ─▶ answer ─▶ take … ─▶ exchangeOver ) …  ─▶ lost
//                                                             └─▶ beginStream ─▶ receive, gather, wrote … ─▶ lost
//
// `Effects.flush` names a connection whose response, or more of its body, may be fetched. A streaming response is not
// fetched in pieces: see HTTP1Stream.swift.

import Bytes
import HTTP2

/// The current request of an HTTP/1.1 connection, and its parts.
struct CurrentRequest {
    let connection: Connection
    let http: HTTPConnection
    let http1: HTTP1Transport
    let exchange: Exchange
    let plain: PlainExchange

    /// Nil if there is no request, or if the connection speaks another protocol.
    init?(_ connection: Connection?) {
        guard let connection, let http = connection.http, let http1 = http.http1, !http1.isIdle,
            let exchange = http.exchange(at: http1.handle), let plain = exchange.plain
        else { return nil }
        self.connection = connection
        self.http = http
        self.http1 = http1
        self.exchange = exchange
        self.plain = plain
    }
}

final class HTTP1Inputs: ShardPart {
    let connections: ConnectionTable
    let relief: MemoryRelief
    let peers: PeerState
    let reading: Reading
    let httpResponses: HTTPResponses
    let connectionEnds: ConnectionEnds
    let httpCalls: HTTPCalls
    let plainRequests: PlainRequests
    let httpInputs: HTTPInputs
    let inputs: ConnectionInputs

    init(
        _ context: ShardContext, _ connections: ConnectionTable, _ relief: MemoryRelief, _ peers: PeerState,
        _ reading: Reading, _ httpResponses: HTTPResponses, _ connectionEnds: ConnectionEnds, _ httpCalls: HTTPCalls,
        _ plainRequests: PlainRequests, _ httpInputs: HTTPInputs, _ inputs: ConnectionInputs
    ) {
        self.connections = connections
        self.relief = relief
        self.peers = peers
        self.reading = reading
        self.httpResponses = httpResponses
        self.connectionEnds = connectionEnds
        self.httpCalls = httpCalls
        self.plainRequests = plainRequests
        self.httpInputs = httpInputs
        self.inputs = inputs
        super.init(context)
    }

    /// Treats a connection as HTTP/1.1: its first bytes, none of which the engine has received, are not HTTP/2's.
    func speaksHTTP1(on id: ConnectionID, now: Instant) {
        guard let connection = connections.find(id), let http = connection.http, case .new = connection.phase else {
            return
        }
        work.spent += Work.request
        http.becomeHTTP1(now: now.monotonic)
        connections.charge(connection)
    }

    /// Handles the head of a request that arrived. The previous request must have ended.
    func request(_ head: HTTP1Request, on id: ConnectionID, now: Instant) {
        work.spent += Work.request
        guard let connection = connections.find(id), let http = connection.http, let http1 = http.http1, http1.isIdle
        else {
            return
        }
        switch connection.phase {
        case .new: inputs.accept(connection)
        case .open: break
        case .closing, .closed: return
        }
        heard(head.size, on: connection)
        // The driver holds as much memory for a waiting request as for a message.
        let isOneTooMany = head.hasBody && relief.shortReassembly != nil
        let problem = head.problem ?? (isOneTooMany ? reading.refuseUnfinished().problem : nil)
        // No body is awaited after a head that can be read in two ways.
        let isComplete = !head.hasBody || head.isAmbiguous || isOneTooMany
        if head.isAmbiguous || isOneTooMany || draining { http1.isLast = true }
        let stream = http1.begin(isChunked: !head.isHTTP10)
        plainRequests.plainRequest(
            connection, http, stream, head.plain, refusedFor: problem, complete: isComplete, now: now)
        // Whatever the request is, the response waits for its end.
        if !isComplete, let exchange = http.exchange(at: http1.handle), !exchange.isFinished {
            http.limitTime(of: exchange, to: limits.reassemblyTime, now: now.monotonic)
        }
        connections.charge(connection)
    }

    /// Handles more of a request's body. The bytes are not kept after the call.
    func body(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        guard let current = CurrentRequest(connections.find(id)) else { return }
        heard(bytes.count, on: current.connection)
        guard !current.exchange.isFinished else { return }
        plainRequests.take(bytes, for: current.exchange, current.plain, current.http)
        connections.charge(current.connection)
    }

    /// The request is complete.
    func requestEnded(on id: ConnectionID, now: Instant) {
        guard let current = CurrentRequest(connections.find(id)), !current.exchange.request.isHalfClosed else { return }
        current.exchange.request.isHalfClosed = true
        plainRequests.bodyEnded(current.exchange, current.plain, now: now)
        connections.charge(current.connection)
    }

    /// The response, returned once, when it can be written. Nil while it is unknown, or while effects of the request
    /// must still reach other shards; `Effects.flush` names the connection afterwards.
    /// - Parameter atOnce: a refusal may be sent before anything else.
    func answer(on id: ConnectionID, atOnce: Bool, now: Instant) -> HTTP1Answer? {
        // A stream that began in the middle of its request would have to end there: the library takes no response at
        // that point.
        guard let current = CurrentRequest(connections.find(id)), atOnce || !current.connection.lists.isFlushing,
            let answer = current.http1.fetch(mayStream: atOnce || current.exchange.request.isHalfClosed)
        else { return nil }
        let connection = current.connection
        // A stream has no time limit, and that of other responses returned here no longer applies.
        current.exchange.deadline = nil
        // Nor does the body of a refusal have to wait for other shards.
        if atOnce, answer.length != nil { connection.lists.isFlushing = false }
        current.http1.quietSince = now.monotonic
        if answer.isStream {
            connections.charge(connection)
            return answer
        }
        let size = answer.headers.reduce(17) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        noteSent(size, on: connection)
        return answer
    }

    /// Moves the next bytes of the response's body into `buffer`, which must not be empty. Not for streams.
    func take(into buffer: UnsafeMutableRawBufferPointer, on id: ConnectionID, now: Instant) -> HTTP1Piece {
        guard let current = CurrentRequest(connections.find(id)), current.http1.isDrivers else { return .gone }
        let (connection, exchange, http1) = (current.connection, current.exchange, current.http1)
        // Messages from this turn may have to reach other shards first.
        guard !connection.lists.isFlushing else { return .later }
        guard !exchange.body.isEmpty else { return http1.isComplete ? .end : .later }
        var count = 0
        exchange.body.take(buffer.count) { bytes, _ in
            UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(from: bytes)
            count += bytes.count
        }
        current.http.weigh(exchange)
        http1.quietSince = now.monotonic
        noteSent(count, on: connection)
        connections.charge(connection)
        return .bytes(count)
    }

    /// Ends an exchange: the response is written, or the request failed.
    /// - Parameter isLast: nothing more is sent on the connection; it stays open only so that the client can read.
    func exchangeOver(on id: ConnectionID, isLast: Bool, now: Instant) {
        guard let current = CurrentRequest(connections.find(id)), current.http1.isDrivers else { return }
        let connection = current.connection
        current.exchange.finish()
        httpCalls.leave(current.exchange, .cancelled, now: now)
        current.http.discard(current.exchange)
        current.http1.end(now: now.monotonic)
        connection.liveness.lastHeard = now.monotonic
        connections.charge(connection)
        if case .closing = connection.phase {
            connectionEnds.close(connection, reason: "closed after an error", now: now)
        } else if isLast {
            connection.lifecycle.beginClosing(deadline: now.monotonic + limits.closeTime, reason: nil)
        }
    }

    /// Handles the end of what the client of an HTTP/1.1 connection sends. The client may still wait for a response,
    /// but a stream has no end to wait for. One that has not begun is refused when it would begin.
    func ended(_ connection: Connection, _ http1: HTTP1Transport, now: Instant) {
        http1.hasEnded = true
        guard let current = CurrentRequest(connection), current.plain.subscribed != nil, !current.exchange.isFinished
        else { return }
        connectionEnds.close(connection, reason: "closed by the peer", now: now)
    }

    /// Ends a connection without a request, or with a response that is not read, after a time.
    func tickHTTP1(_ connection: Connection, _ http: HTTPConnection, _ http1: HTTP1Transport, now: Instant) {
        let isWaiting = http1.isIdle || http1.isComplete
        if isWaiting, now.monotonic - Swift.min(http1.quietSince, now.monotonic) >= limits.httpSilence {
            reached(.httpSilence)
            let reason = http1.isIdle ? "no request was received" : "it did not read its response"
            return connectionEnds.close(connection, reason: reason, now: now)
        }
        httpInputs.expire(http, now: now)
        httpResponses.sendHeartbeats(http, now: now)
        connections.charge(connection)
    }

    func heard(_ count: Int, on connection: Connection) {
        connection.bytes.in &+= UInt64(count)
        counters.bytesIn &+= UInt64(count)
        connection.liveness.lastHeard = moment.monotonic
    }

    private func noteSent(_ count: Int, on connection: Connection) {
        connection.bytes.out &+= UInt64(count)
        counters.bytesOut &+= UInt64(count)
    }
}
