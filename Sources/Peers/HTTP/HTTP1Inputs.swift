// HTTP1Inputs: what the driver tells of connections that speak HTTP/1.1, and what it fetches from them. A library of
// the driver's has the protocol's bytes; here come whole heads and pieces of bodies, one request of a connection at a
// time.
//
//     speaksHTTP1 ─▶ ( request ─▶ body … ─▶ requestEnded ─▶ answer ─▶ take … ─▶ exchangeOver ) …  ─▶ lost
//                                                             └─▶ beginStream ─▶ receive, gather, wrote … ─▶ lost
//
// `Effects.flush` names a connection whose answer, or more of whose body, may be fetched. An answer that is a stream is
// not fetched piece by piece: HTTP1Stream.swift.

import Bytes
import HTTP2

/// The request that a connection of HTTP/1.1 is at, and where it stands.
struct CurrentRequest {
    let connection: Connection
    let http: HTTPConnection
    let http1: HTTP1Transport
    let exchange: Exchange
    let plain: PlainExchange

    /// Nil when there is none, or the connection is of another protocol.
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

    /// The first bytes of a connection that has sent none to the engine are not HTTP/2's.
    func speaksHTTP1(on id: ConnectionID, now: Instant) {
        guard let connection = connections.find(id), let http = connection.http, case .new = connection.phase else {
            return
        }
        work.spent += Work.request
        http.becomeHTTP1(now: now.monotonic)
        connections.charge(connection)
    }

    /// The head of a request has come. The one before it is over.
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
        // What the driver has for one that waits is as much as a message.
        let isOneTooMany = head.hasBody && relief.shortReassembly != nil
        let problem = head.problem ?? (isOneTooMany ? reading.refuseUnfinished().problem : nil)
        // Behind a head that may be read in two ways nothing is waited for.
        let isComplete = !head.hasBody || head.isAmbiguous || isOneTooMany
        if head.isAmbiguous || isOneTooMany || draining { http1.isLast = true }
        let stream = http1.begin(isChunked: !head.isHTTP10)
        plainRequests.plainRequest(
            connection, http, stream, head.plain, refusedFor: problem, complete: isComplete, now: now)
        // Whatever it asks for: the answer waits for its end.
        if !isComplete, let exchange = http.exchange(at: http1.handle), !exchange.isFinished {
            http.limitTime(of: exchange, to: limits.reassemblyTime, now: now.monotonic)
        }
        connections.charge(connection)
    }

    /// More of a request's body came. It is not kept beyond the call.
    func body(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        guard let current = CurrentRequest(connections.find(id)) else { return }
        heard(bytes.count, on: current.connection)
        guard !current.exchange.isFinished else { return }
        plainRequests.take(bytes, for: current.exchange, current.plain, current.http)
        connections.charge(current.connection)
    }

    /// The request has come to its end.
    func requestEnded(on id: ConnectionID, now: Instant) {
        guard let current = CurrentRequest(connections.find(id)), !current.exchange.request.isHalfClosed else { return }
        current.exchange.request.isHalfClosed = true
        plainRequests.bodyEnded(current.exchange, current.plain, now: now)
        connections.charge(current.connection)
    }

    /// The answer, once, when it can be written. Nil while it is not known, or what made it has still to be told to
    /// others; `Effects.flush` names the connection then.
    /// - Parameter atOnce: a refusal may go ahead of everything.
    func answer(on id: ConnectionID, atOnce: Bool, now: Instant) -> HTTP1Answer? {
        // A stream that began in the middle of its request would have to end there: the library takes no answer then.
        guard let current = CurrentRequest(connections.find(id)), atOnce || !current.connection.lists.isFlushing,
            let answer = current.http1.fetch(mayStream: atOnce || current.exchange.request.isHalfClosed)
        else { return nil }
        let connection = current.connection
        if answer.isStream, current.http1.hasEnded {
            connectionEnds.close(connection, reason: "closed by the peer", now: now)
            return nil
        }
        // A stream has no limit of time. What else is answered now has none already.
        current.exchange.deadline = nil
        // Neither has the body of a refusal to wait for others.
        if atOnce, answer.length != nil { connection.lists.isFlushing = false }
        current.http1.quietSince = now.monotonic
        if answer.isStream {
            connections.charge(connection)
            return answer
        }
        let size = answer.headers.reduce(17) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        told(size, on: connection)
        return answer
    }

    /// Moves the next bytes of the answer's body into `buffer`, which is not empty. Not of a stream's.
    func take(into buffer: UnsafeMutableRawBufferPointer, on id: ConnectionID, now: Instant) -> HTTP1Piece {
        guard let current = CurrentRequest(connections.find(id)), current.http1.isDrivers else { return .gone }
        let (connection, exchange, http1) = (current.connection, current.exchange, current.http1)
        // What came this turn may have to reach other shards first.
        guard !connection.lists.isFlushing else { return .later }
        guard !exchange.body.isEmpty else { return http1.isComplete ? .end : .later }
        var count = 0
        exchange.body.take(buffer.count) { bytes, _ in
            UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(from: bytes)
            count += bytes.count
        }
        current.http.weigh(exchange)
        http1.quietSince = now.monotonic
        told(count, on: connection)
        connections.charge(connection)
        return .bytes(count)
    }

    /// The answer is written, or the request came to nothing.
    /// - Parameter isLast: nothing more comes on the connection; it lasts only as long as it takes the client to read.
    func exchangeOver(on id: ConnectionID, isLast: Bool, now: Instant) {
        guard let current = CurrentRequest(connections.find(id)), current.http1.isDrivers else { return }
        let connection = current.connection
        current.exchange.finish()
        httpCalls.leave(current.exchange, .cancelled, now: now)
        current.http.forget(current.exchange)
        current.http1.end(now: now.monotonic)
        connection.liveness.lastHeard = now.monotonic
        connections.charge(connection)
        if case .closing = connection.phase {
            connectionEnds.close(connection, reason: "closed after an error", now: now)
        } else if isLast {
            connection.lifecycle.beginClosing(deadline: now.monotonic + limits.closeTime, reason: nil)
        }
    }

    /// The client of a connection of HTTP/1.1 sends no more. It may wait for an answer, but a stream has no end that it
    /// would wait for.
    func ended(_ connection: Connection, _ http1: HTTP1Transport, now: Instant) {
        http1.hasEnded = true
        guard let current = CurrentRequest(connection), current.plain.subscribed != nil, !current.exchange.isFinished
        else { return }
        connectionEnds.close(connection, reason: "closed by the peer", now: now)
    }

    /// What time ends: a connection without a request, and an answer that nobody reads.
    func tickHTTP1(_ connection: Connection, _ http: HTTPConnection, _ http1: HTTP1Transport, now: Instant) {
        let isWaiting = http1.isIdle || http1.isComplete
        if isWaiting, now.monotonic - Swift.min(http1.quietSince, now.monotonic) >= limits.httpSilence {
            reached(.httpSilence)
            let reason = http1.isIdle ? "no request came" : "it left its answer unread"
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

    private func told(_ count: Int, on connection: Connection) {
        connection.bytes.out &+= UInt64(count)
        counters.bytesOut &+= UInt64(count)
    }
}
