// ConnectionInputs: the driver's inputs for connections: accepted, bytes, end, lost, writable, written.

import Bytes
import ForebayWire
import RSocket

final class ConnectionInputs: ShardPart {
    let timers: Timers
    let connections: ConnectionTable
    let relief: MemoryRelief
    let events: Events
    let authorization: Authorization
    let reading: Reading
    let notices: PublisherNotices
    let connectionEnds: ConnectionEnds
    let feeding: OutputFeeding
    let rsocketRequests: RSocketRequests
    let httpInputs: HTTPInputs
    // Above
    unowned(unsafe) var resumption: Resumption!
    unowned(unsafe) var http1Inputs: HTTP1Inputs!

    init(
        _ context: ShardContext, _ timers: Timers, _ connections: ConnectionTable, _ relief: MemoryRelief,
        _ events: Events, _ authorization: Authorization, _ reading: Reading, _ notices: PublisherNotices,
        _ connectionEnds: ConnectionEnds, _ feeding: OutputFeeding, _ rsocketRequests: RSocketRequests,
        _ httpInputs: HTTPInputs
    ) {
        self.timers = timers
        self.connections = connections
        self.relief = relief
        self.events = events
        self.authorization = authorization
        self.reading = reading
        self.notices = notices
        self.connectionEnds = connectionEnds
        self.feeding = feeding
        self.rsocketRequests = rsocketRequests
        self.httpInputs = httpInputs
        super.init(context)
    }

    /// Admits a connection accepted from `peer` (an address as text, "127.0.0.1:50312"), which must speak
    /// `wireProtocol`.
    func admit(peer: String, wireProtocol: WireProtocol, now: Instant) throws(ConnectionRefusal) -> ConnectionID {
        guard !draining else { throw .draining }
        guard quotas.connections.take(limit: limits.connections) else {
            reached(.connections)
            throw .connections(limit: limits.connections)
        }
        let address = Connection.address(of: peer)
        guard quotas.connect(address, limit: limits.connectionsPerAddress) else {
            quotas.connections.give()
            reached(.connectionsPerAddress)
            throw .connectionsPerAddress(limit: limits.connectionsPerAddress)
        }
        let connection = connections.insert { handle in
            Connection(
                handle: handle, peer: peer, address: address, wireProtocol: wireProtocol, limits: limits, pool: pool,
                now: now.monotonic)
        }
        if connection.http != nil {
            connection.login.assume(authorization.unasked(nil))
            work.spent += Work.request
        }
        connection.liveness.delaySetup(until: timers.lateness, now: now.monotonic)
        timers.touch(connection)
        counters.connectionsOpened += 1
        log(.debug, "connection opened", [("peer", peer)])
        return connection.id
    }

    /// Notes that the TLS handshake is complete. Called once, before any bytes.
    /// - Parameter certificate: the peer's, if one was requested and a trusted one was presented.
    func secured(_ id: ConnectionID, certificate: PeerCertificate?, now: Instant) {
        guard let connection = connections.find(id) else { return }
        connection.remote.secure(certificate)
        if connection.http != nil { connection.login.assume(authorization.unasked(certificate)) }
        counters.handshakes &+= 1
    }

    /// Handles bytes that arrived. They are not kept after the call.
    func receive(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        guard let connection = connections.find(id) else { return }
        switch connection.phase {
        case .new where connection.bytes.in == 0 && connection.http == nil && ConnectionInputs.looksLikeTLS(bytes):
            return refuseTLS(connection, now: now)
        case .new where connection.bytes.in == 0 && connection.http == nil && ConnectionInputs.looksLikeHTTP(bytes):
            return refuseHTTP(connection, now: now)
        case .new, .open: break
        case .closing, .closed: return
        }
        if let http1 = connection.http?.http1 { return http1Inputs.discard(bytes.count, connection, http1, now: now) }
        connection.bytes.in &+= UInt64(bytes.count)
        counters.bytesIn &+= UInt64(bytes.count)
        connection.liveness.lastHeard = now.monotonic
        connection.liveness.probed = false
        if let http = connection.http {
            if http.session == nil { http.becomeHTTP2(limits: limits) }
            http.session?.pointee.feed(bytes, now: now.monotonic)
        } else {
            connection.rsocket.shortReassembly = relief.shortReassembly
            connection.rsocket.feed(bytes, now: now.monotonic)
        }
        take(connection, now: now)
        if let http = connection.http { feeding.feedWindowWaiters(http, now: now) }
        connections.charge(connection)
    }

    /// Whether the first bytes of a connection are TLS's (RFC 8446, 5.1). As the length of RSocket's first frame, they
    /// would exceed every limit of SETUP.
    private static func looksLikeTLS(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.count >= 3 && bytes[0] == 22 && bytes[1] == 3 && bytes[2] <= 4
    }

    private func refuseTLS(_ connection: Connection, now: Instant) {
        let text = "This port does not speak TLS; connect with rsocket://, or start the broker with a certificate."
        connectionEnds.fatal(
            connection, RSocketError(code: .unsupportedSetup, sentence: text, scope: .connection), now: now)
    }

    /// Whether the first bytes of a connection are an HTTP method or HTTP/2's preface. As the length of RSocket's first
    /// frame, they would exceed every limit of SETUP.
    private static func looksLikeHTTP(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let methods: [StaticString] = ["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PRI "]
        return methods.contains { method in
            method.withUTF8Buffer { bytes.count >= $0.count && bytes.prefix($0.count).elementsEqual($0) }
        }
    }

    private func refuseHTTP(_ connection: Connection, now: Instant) {
        let text = "This port speaks RSocket; connect with rsocket://, or to the broker's HTTP port."
        connectionEnds.fatal(
            connection, RSocketError(code: .unsupportedSetup, sentence: text, scope: .connection), now: now
        ) {
            let text = ErrorWord.unsupported.text(text)
            $0.append("HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n")
            $0.append("content-length: \(text.utf8.count + 1)\r\nconnection: close\r\n\r\n\(text)\n")
        }
    }

    /// Processes input that may be processed now, up to a quantum.
    func take(_ connection: Connection, now: Instant) {
        switch connection.phase {
        case .new, .open: break
        case .closing, .closed: return
        }
        connection.input.isHeld = false
        // The connection is already queued for its next quantum.
        if connection.input.isBehind { return putAside(connection) }
        let end = work.spent + Work.quantum
        while !reading.mustWait(connection) {
            if work.spent >= end {
                putAside(connection)
                return work.getInLine(connection)
            }
            guard dealWithNext(connection, now: now) else {
                reading.updateReading(connection)
                return
            }
            work.spent += Work.event
            switch connection.phase {
            case .new, .open: continue
            case .closing, .closed: return
            }
        }
        connection.input.isHeld = true
        putAside(connection)
        reading.updateReading(connection)
    }

    /// Copies unprocessed input, so that the driver can reuse its buffer.
    private func putAside(_ connection: Connection) {
        if let http = connection.http { http.session?.pointee.hold() } else { connection.rsocket.hold() }
    }

    /// Processes the next event. Returns false if there is none.
    private func dealWithNext(_ connection: Connection, now: Instant) -> Bool {
        guard let http = connection.http else {
            guard let event = connection.rsocket.next() else { return false }
            rsocketRequests.handle(event, on: connection, now: now)
            return true
        }
        guard let session = http.session else { return false }
        guard let event = session.pointee.next() else {
            if case .new = connection.phase, session.pointee.isOpened { accept(connection) }
            if session.pointee.wantsOutput { connections.flush(connection) }
            return false
        }
        if case .worked(let units) = event {
            work.spent += units
            // The session's own responses need not wait for the rest.
            if session.pointee.wantsOutput { connections.flush(connection) }
            return true
        }
        if case .new = connection.phase { accept(connection) }
        httpInputs.handle(event, on: connection, http, now: now)
        return true
    }

    func accept(_ connection: Connection) {
        connection.liveness.lifetime = limits.httpSilence
        connection.lifecycle.open()
        events.event("connection-opened", connection: connection, reason: nil)
    }

    /// Continues with held input once the peer has read enough or a topic's owner has caught up.
    func resume(_ connection: Connection, now: Instant) {
        if connection.input.isHeld, !reading.mustWait(connection) {
            take(connection, now: now)
            connections.charge(connection)
        } else {
            reading.updateReading(connection)
        }
    }

    /// Ends the connection: the peer has sent a FIN and can make no more requests.
    func receiveEnd(on id: ConnectionID, now: Instant) {
        guard let connection = connections.find(id) else { return }
        if case .closing = connection.phase, !connection.isWritten { return }
        if let http1 = connection.http?.http1 {
            http1Inputs.ended(connection, http1, now: now)
            return
        }
        resumption.unplug(connection, reason: "closed by the peer", now: now)
    }

    /// Ends or detaches a connection whose socket is closed: nothing can be written to it.
    func lost(_ id: ConnectionID, reason: String, now: Instant) {
        guard let connection = connections.find(id) else { return }
        resumption.unplug(connection, reason: reason, now: now)
    }

    /// The bytes to write next, in order, in at most `pieces.count` pieces; not necessarily all. They are valid until
    /// the next input or `gather` for any connection: write them and call `wrote` before that.
    /// Returns the number of pieces; 0 if there is nothing to write.
    func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        connections.withFound(id) { connection in
            connection.lists.isFlushing = false
            connection.http?.produce(into: connection, atMost: limits.output - connection.output.count)
            let count = connection.output.gather(into: pieces)
            // There is nothing to write, so no write will resume held input.
            if count == 0, connection.input.isHeld { work.getInLine(connection) }
            return count
        } ?? 0
    }

    /// The socket took `count` of the gathered bytes. `blocked`: the socket takes no more for now; call `writable` when
    /// it does.
    func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant) {
        let isDone = connections.withFound(id) { connection in
            connection.output.wrote(count, blocked: blocked)
            if count > 0 { connection.liveness.unreadSince = nil }
            connection.bytes.out &+= UInt64(count)
            counters.bytesOut &+= UInt64(count)
            guard !blocked, connection.isAtEase else { return false }
            if !connection.output.isEmpty { connections.flush(connection) }
            return true
        }
        if isDone == false { goOn(id, wrote: count, blocked: blocked, now: now) }
    }

    /// Continues what may have waited for a write.
    private func goOn(_ id: ConnectionID, wrote count: Int, blocked: Bool, now: Instant) {
        guard let connection = connections.find(id) else { return }
        let http1 = connection.http?.http1
        if count > 0 { http1?.quietSince = now.monotonic }
        if case .closing = connection.phase, connection.isWritten {
            connectionEnds.close(connection, reason: "closed after an error", now: now)
        } else if http1?.isSpent == true, connection.isWritten {
            connectionEnds.close(connection, reason: "its stream has ended", now: now)
        } else {
            resume(connection, now: now)
            if let session = connection.http?.session, session.pointee.hasEvents, !connection.input.isHeld {
                take(connection, now: now)
                connections.charge(connection)
            }
            notices.sendUnsent(on: connection)
            resumption.askForAcknowledgement(connection)
            if !blocked { feeding.fill(connection, now: now) }
        }
    }

    /// A blocked socket takes bytes again.
    func writable(_ id: ConnectionID, now: Instant) {
        guard let connection = connections.find(id) else { return }
        connection.output.blocked = false
        if !connection.isWritten { return connections.flush(connection) }
        // The driver had buffered the rest, so everything offered counted as written.
        resume(connection, now: now)
        feeding.fill(connection, now: now)
    }
}
