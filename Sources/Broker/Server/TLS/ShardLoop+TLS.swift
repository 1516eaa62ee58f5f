// ShardLoop+TLS: connections of a TLS listener until their handshake is complete, and HTTP/1.1 over TLS, where the
// library gets a separate socket.
//
//     handshaking ──"h2", or RSocket──▶ framed, by a TLSStream
//         ├────────anything else of HTTP──▶ http1, by a Relay ──stream──▶ framed
//         └────────failed, not TLS, too late──▶ gone

import Core
import EventLoop
import Glibc
import TLS

extension ShardLoop {
    /// Continues a handshake, unless this turn has used up its time for handshakes: then the poller reports it again.
    func shakeHands(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ wireProtocol: WireProtocol) {
        guard inputs.handshakeTime < Limits.handshakeQuantum, let server = context.tls else { return }
        let began = Clock.monotonic()
        defer { inputs.handshakeTime += Clock.monotonic() - began }
        let protocols = wireProtocol == .http ? TLSStream.Protocols.http : .none
        switch server.advance(connection.pointee.fd, &connection.pointee.tls, protocols, insteadOf: wireProtocol) {
        case .done(let tls): secured(id, connection, tls, wireProtocol)
        case .waits(let writable): handshake(id, connection, writes: writable)
        case .refused(let reason): refuseHandshake(id, reason)
        }
    }

    private func handshake(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, writes: Bool) {
        guard connection.pointee.blocked != writes else { return }
        connection.pointee.blocked = writes
        watch(id, connection.pointee)
    }

    /// Closes a connection whose handshake failed.
    func refuseHandshake(_ id: ConnectionID, _ reason: String) {
        guard let connection = connections.remove(id) else { return }
        context.connections.remove()
        handshakeFailed(id, connection, reason)
    }

    /// Reports the failed handshake of a connection that has been removed from the table.
    func handshakeFailed(_ id: ConnectionID, _ connection: Connection, _ reason: String) {
        let peer = Socket.peerAddress(connection.fd)?.description ?? "?"
        failedHandshakes.count("\(reason) (\(peer))")
        shard.notSecured(id, reason: reason, now: now)
        // Lets the peer read the reason.
        linger(connection.fd)
    }

    private func secured(
        _ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ tls: TLSStream,
        _ wireProtocol: WireProtocol
    ) {
        if context.log.isEnabled(.debug) {
            let peer = Socket.peerAddress(connection.pointee.fd)?.description ?? "?"
            context.log.write(.debug, "TLS handshake completed", tls.facts(peer: peer))
        }
        let memory = context.memory
        tls.gauge = TLSGauge(hold: { memory.hold($0) }, isFull: { memory.isHoldingMuch })
        shard.secured(id, certificate: tls.certificate, now: now)
        connection.pointee.blocked = false
        connection.pointee.kind = .framed
        // Over TLS, HTTP/2 must be negotiated by ALPN (RFC 9113, 3.2).
        if wireProtocol == .http, tls.agreed != "h2" { return relay(id, connection, tls) }
        watch(id, connection.pointee)
    }

    /// Reads bytes that TLS has buffered, which the poller does not report, after all other sockets.
    func readUnread() {
        var due: [ConnectionID] = []
        swap(&due, &unread)
        for (place, id) in due.enumerated() {
            if place > 0, isTurnOver {
                unread += due[place...]
                break
            }
            guard let connection = connections[id], !connection.pointee.paused, !connection.pointee.ended,
                connection.pointee.tls?.hasInput == true
            else { continue }
            read(id, connection)
        }
    }

    // MARK: HTTP/1.1

    /// Inserts a relay between the client and the library, which gets one end of a socket pair.
    private func relay(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ tls: TLSStream) {
        let fd = connection.pointee.fd
        guard relays.count < Limits.securedHTTP1 else { return refuseRelay(id, tls) }
        guard let (inner, theirs) = Socket.pair(buffer: Limits.securedHTTP1Buffer)
        else { return lose(id, error: EMFILE) }
        if context.files.admin.contains(max(inner, theirs)) {
            close(inner)
            close(theirs)
            context.connections.noteShortage()
            return lose(id, error: EMFILE)
        }
        do throws(SystemError) {
            try poller.add(theirs, token: Token.connection(id).rawValue, interest: .end)
        } catch {
            close(inner)
            close(theirs)
            return lose(id, error: error.code)
        }
        connection.pointee.fd = theirs
        connection.pointee.tls = nil
        // HTTP/1.1 has no keepalive message to probe a silent client with.
        Socket.keepAlive(fd)
        adoptHTTP1(id, connection)
        connections[id]?.pointee.relay = relays.add(tls, outer: fd, inner: inner, now: now.monotonic, poller)
    }

    /// Refuses a connection because the maximum number of relays is reached.
    private func refuseRelay(_ id: ConnectionID, _ tls: TLSStream) {
        guard let connection = connections.remove(id) else { return }
        context.connections.remove()
        let refusal = ConnectionRefusal.connections(limit: Limits.securedHTTP1)
        context.connections.note(refusal)
        _ = CleartextAnswer.http1(refusal.problem).withUnsafeBytes { tls.write(record: $0) }
        shard.lost(id, reason: refusal.reason, now: now)
        linger(connection.fd, tls)
    }

    /// Whether there are so many relays that connections are not kept for another request, to make room for new ones.
    var hasManyRelays: Bool { relays.count > Limits.securedHTTP1 / 2 }

    /// Starts the stream of a connection with a relay: takes back the client's socket and closes the library's.
    func takeOver(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, relay number: UInt32) {
        guard let relay = relays.remove(number) else { return lose(id, error: ECONNRESET) }
        let rest = relay.rest(scratch: buffer)
        relay.closeInner()
        if let micro = connection.pointee.micro { micro.daemon.abandon(micro) }
        connection.pointee.micro = nil
        connection.pointee.relay = nil
        connection.pointee.fd = relay.outer
        connection.pointee.tls = relay.tls
        connection.pointee.kind = .framed
        connection.pointee.ended = relay.outerEnded
        watch(id, connection.pointee)
        rest.withUnsafeBytes { shard.beginStream(on: id, behind: $0, now: now) }
        if relay.tls.hasInput { unread.append(id) }
        if relay.outerEnded { shard.receiveEnd(on: id, now: now) }
    }

    /// Handles the readiness of a relay's sockets.
    func relay(_ number: UInt32, isDead: Bool) {
        let over = relays.advance(number, isDead: isDead, scratch: buffer, now: now.monotonic, poller)
        if let over { linger(over.outer, over.tls) }
    }
}
