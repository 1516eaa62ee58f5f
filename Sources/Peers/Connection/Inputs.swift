// Inputs: what the driver tells of connections – accepted, bytes, end, lost, writable, written.

import Bytes
import RSocket

extension Shard {
    /// As `admit`; nil if it is refused.
    public func open(peer: String, face: Face, now: Instant) -> ConnectionID? {
        try? admit(peer: peer, face: face, now: now)
    }

    /// A connection was accepted from `peer` (an address as text, "127.0.0.1:50312"), which is to speak `face`.
    public func admit(peer: String, face: Face, now: Instant) throws(ConnectionRefusal) -> ConnectionID {
        moment = now
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
                handle: handle, peer: peer, address: address, face: face, limits: limits, pool: pool,
                now: now.monotonic)
        }
        if connection.http != nil {
            connection.principal = unasked(connection)
            work.spent += Work.request
        }
        connection.delaySetup(until: timers.lateness, now: now.monotonic)
        timers.touch(connection)
        counters.connectionsOpened += 1
        log(.debug, "connection opened", [("peer", peer)])
        return connection.id
    }

    /// The connection is secured: from here on its bytes come. Told once, before any of them.
    /// - Parameter certificate: the peer's, if it was asked for one and has shown one that is trusted.
    public func secured(_ id: ConnectionID, certificate: PeerCertificate?, now: Instant) {
        moment = now
        guard let connection = find(id) else { return }
        connection.certificate = certificate
        connection.isSecured = true
        if connection.http != nil { connection.principal = unasked(connection) }
        counters.handshakes &+= 1
    }

    /// The connection could not be secured, and is gone.
    public func notSecured(_ id: ConnectionID, reason: String, now: Instant) {
        counters.handshakeFailures &+= 1
        lost(id, reason: reason, now: now)
    }

    /// Bytes arrived. They are not kept beyond the call.
    public func receive(_ bytes: UnsafeRawBufferPointer, on id: ConnectionID, now: Instant) {
        moment = now
        guard let connection = find(id) else { return }
        switch connection.phase {
        case .new where connection.bytesIn == 0 && connection.http == nil && Shard.beginTLS(bytes):
            return refuseTLS(connection, now: now)
        case .new where connection.bytesIn == 0 && connection.http == nil && Shard.beginHTTP(bytes):
            return refuseHTTP(connection, now: now)
        case .new, .open: break
        case .closing, .closed: return
        }
        if let http1 = connection.http?.http1 { return discard(bytes.count, connection, http1, now: now) }
        connection.bytesIn &+= UInt64(bytes.count)
        counters.bytesIn &+= UInt64(bytes.count)
        connection.lastHeard = now.monotonic
        connection.probed = false
        if let http = connection.http {
            if http.session == nil { http.becomeHTTP2(limits: limits) }
            http.session?.pointee.feed(bytes, now: now.monotonic)
        } else {
            connection.rsocket.shortReassembly = relief.shortReassembly
            connection.rsocket.feed(bytes, now: now.monotonic)
        }
        take(connection, now: now)
        if let http = connection.http { feedCrowded(http, now: now) }
        charge(connection)
        settle(now)
    }

    /// Whether the first bytes of a connection are TLS's (RFC 8446, 5.1) – as the length of RSocket's first frame they
    /// would be beyond every limit of SETUP.
    private static func beginTLS(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.count >= 3 && bytes[0] == 22 && bytes[1] == 3 && bytes[2] <= 4
    }

    private func refuseTLS(_ connection: Connection, now: Instant) {
        let text = "This port does not speak TLS: connect with rsocket://, or start the broker with a certificate."
        fatal(connection, RSocketError(code: .unsupportedSetup, message: text, scope: .connection), now: now)
        settle(now)
    }

    /// Whether the first bytes of a connection are a method of HTTP, or HTTP/2's preface, which as the length of
    /// RSocket's first frame would be beyond every limit of SETUP.
    private static func beginHTTP(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let methods: [StaticString] = ["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PRI "]
        return methods.contains { method in
            method.withUTF8Buffer { bytes.count >= $0.count && bytes.prefix($0.count).elementsEqual($0) }
        }
    }

    private func refuseHTTP(_ connection: Connection, now: Instant) {
        let text = "This port speaks RSocket: connect with rsocket://, or to the broker's port for HTTP."
        fatal(connection, RSocketError(code: .unsupportedSetup, message: text, scope: .connection), now: now) {
            $0.append("HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n")
            $0.append("content-length: \(text.utf8.count + 1)\r\nconnection: close\r\n\r\n\(text)\n")
        }
        settle(now)
    }

    /// Deals with what the peer has sent and may be dealt with now, up to a quantum.
    func take(_ connection: Connection, now: Instant) {
        switch connection.phase {
        case .new, .open: break
        case .closing, .closed: return
        }
        connection.isHeld = false
        // Its turn comes.
        if connection.isBehind { return putAside(connection) }
        let end = work.spent + Work.quantum
        while !mustWait(connection) {
            if work.spent >= end {
                putAside(connection)
                return getInLine(connection)
            }
            guard dealWithNext(connection, now: now) else {
                updateReading(connection)
                return
            }
            work.spent += Work.event
            switch connection.phase {
            case .new, .open: continue
            case .closing, .closed: return
            }
        }
        connection.isHeld = true
        putAside(connection)
        updateReading(connection)
    }

    /// Keeps what was read and is not dealt with: the driver's buffer is its own again.
    private func putAside(_ connection: Connection) {
        if let http = connection.http { http.session?.pointee.hold() } else { connection.rsocket.hold() }
    }

    /// False when nothing is left to deal with.
    private func dealWithNext(_ connection: Connection, now: Instant) -> Bool {
        guard let http = connection.http else {
            guard let event = connection.rsocket.next() else { return false }
            handle(event, on: connection, now: now)
            return true
        }
        guard let session = http.session else { return false }
        guard let event = session.pointee.next() else {
            if case .new = connection.phase, session.pointee.isOpened { accept(connection) }
            if session.pointee.wantsOutput { flush(connection) }
            return false
        }
        if case .worked(let units) = event {
            work.spent += units
            // Answers that the session gave by itself need not wait for the rest.
            if session.pointee.wantsOutput { flush(connection) }
            return true
        }
        if case .new = connection.phase { accept(connection) }
        handle(event, on: connection, http, now: now)
        return true
    }

    func accept(_ connection: Connection) {
        connection.lifetime = limits.httpSilence
        connection.phase = .open
        connection.isAnnounced = true
        event("connection-opened", connection: connection, reason: nil)
    }

    /// What was read and not dealt with, and answers that are not read, count as the broker's memory.
    func charge(_ connection: Connection) {
        let bytes = connection.isClosed ? 0 : connection.bufferedBytes
        let undealt = connection.isHeld || connection.isBehind ? bytes : 0
        if undealt != connection.undealt { pool.undealt += undealt - connection.undealt }
        connection.undealt = undealt
        if bytes != connection.charged { memory.addPending(bytes - connection.charged) }
        connection.charged = bytes
    }

    /// Goes on with what was put aside, as soon as the peer has read enough or a topic's owner has caught up.
    func resume(_ connection: Connection, now: Instant) {
        if connection.isHeld, !mustWait(connection) {
            take(connection, now: now)
            charge(connection)
        } else {
            updateReading(connection)
        }
    }

    /// The peer will send nothing more (a FIN): it cannot ask for anything, so the connection is over.
    public func receiveEnd(on id: ConnectionID, now: Instant) {
        moment = now
        guard let connection = find(id) else { return }
        if case .closing = connection.phase, !connection.isWritten { return }
        if let http1 = connection.http?.http1 {
            ended(connection, http1, now: now)
            return settle(now)
        }
        unplug(connection, reason: "closed by the peer", now: now)
        settle(now)
    }

    /// The socket is gone; nothing can be written to it.
    public func lost(_ id: ConnectionID, reason: String, now: Instant) {
        moment = now
        guard let connection = find(id) else { return }
        unplug(connection, reason: reason, now: now)
        settle(now)
    }

    /// The bytes to write next, in order, at most as many pieces as `pieces` holds; not always all there are. Valid
    /// until the next input or `gather` for any connection: write them, and tell `wrote`, before that.
    /// Returns the number of pieces; 0 when there is nothing to write.
    public func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int {
        guard let connection = find(id) else { return 0 }
        connection.isFlushing = false
        connection.http?.produce(into: connection, atMost: limits.output - connection.output.count)
        let count = connection.output.gather(into: pieces)
        // Nothing will be written, which it may have been held for.
        if count == 0, connection.isHeld { getInLine(connection) }
        return count
    }

    /// `count` of the gathered bytes were taken by the socket. `blocked`: it takes no more until it is writable again;
    /// call `writable` then.
    public func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant) {
        moment = now
        guard let connection = find(id) else { return }
        connection.output.wrote(count, blocked: blocked)
        if count > 0 { connection.unreadSince = nil }
        connection.bytesOut &+= UInt64(count)
        counters.bytesOut &+= UInt64(count)
        let http1 = connection.http?.http1
        if count > 0 { http1?.quietSince = now.monotonic }
        if case .closing = connection.phase, connection.isWritten {
            close(connection, reason: "closed after an error", now: now)
        } else if http1?.isSpent == true, connection.isWritten {
            close(connection, reason: "its stream has ended", now: now)
        } else {
            resume(connection, now: now)
            if let session = connection.http?.session, session.pointee.hasEvents, !connection.isHeld {
                take(connection, now: now)
                charge(connection)
            }
            tellUntold(on: connection)
            askForAcknowledgement(connection)
            if !blocked { fill(connection, now: now) }
        }
        settle(now)
    }

    /// The output has room: what waited for it goes on.
    func fill(_ connection: Connection, now: Instant) {
        feedHungry(connection, now: now)
        if let http = connection.http {
            feedCrowded(http, now: now)
            answerHeldBack(http, now: now)
        }
        if !connection.waitingListings.isEmpty {
            let listings = connection.waitingListings
            connection.waitingListings.removeAll()
            for listing in listings where streams[listing.handle] === listing {
                listing.isWaiting = false
                proceed(listing, now: now)
            }
        }
        if !connection.isWritten { flush(connection) }
    }

    /// A socket that was blocked takes bytes again.
    public func writable(_ id: ConnectionID, now: Instant) {
        moment = now
        guard let connection = find(id) else { return }
        connection.output.blocked = false
        if !connection.isWritten { return flush(connection) }
        // The driver held back the rest of what it had taken, so that all that was offered counted as written.
        resume(connection, now: now)
        fill(connection, now: now)
        settle(now)
    }

    /// Begin to shut down: no new connections, streams or messages. Subscriptions receive what waits and they give
    /// credit for; a connection is told and closed once there is nothing more for it, or nothing was asked of it for
    /// `Limits.askTime`.
    public func drain(now: Instant) {
        moment = now
        draining = true
        sweep(.drainingTopics, now: now)
        rateLimiter.payWaiting(self, now: now)
        sweep(.drainingConnections, now: now)
        settle(now)
        // Not at once: what other shards have under way is to arrive before a connection is found to be done.
        timers.nextTick = now.monotonic + Shard.tickInterval
    }

    func drain(_ connection: Connection, now: Instant) {
        connection.lastMoved = now.monotonic
        timers.touch(connection)
        if connection.isDetached { return close(connection, reason: "the broker is shutting down", now: now) }
        guard let http = connection.http, connection.isOpen, http.tellOfEnd() else { return }
        tellWatchers(http)
        flush(connection)
    }

    /// A connection of a draining shard goes when nothing more can be delivered to it.
    func closeIfDrained(_ connection: Connection, now: Instant) {
        // A list that waits while all is written has a peer that keeps its window closed, as one without credit.
        guard connection.isWritten, connection.hungryCount == 0, connection.parkedBytes == 0,
            connection.waitingListings.isEmpty || connection.http != nil, connection.http?.isWaiting != true
        else { return }
        let (delivered, waiting) = connection.standing
        if delivered != connection.movedTo {
            connection.movedTo = delivered
            connection.lastMoved = now.monotonic
        }
        if waiting > 0, now.monotonic - connection.lastMoved < limits.askTime { return }
        counters.undelivered &+= waiting
        let goodbye = RSocketError(code: .connectionClose, message: Shard.drainingRefusal.message, scope: .connection)
        fatal(connection, goodbye, now: now)
    }

    static var drainingRefusal: Refusal { Refusal(.unavailable, "The broker is shutting down; connect again later.") }

    /// The connection that an input is about. The next tick looks at it.
    @inline(__always)
    func find(_ id: ConnectionID) -> Connection? {
        guard let connection = connections[Handle(index: id.index, generation: id.generation)] else { return nil }
        timers.touch(connection)
        return connection
    }

    // A connection's end

    /// Tells the peer what was wrong with the connection, and closes it when that is written.
    /// - Parameter answer: says so to one that speaks another protocol.
    func fatal(
        _ connection: Connection, _ error: RSocketError, now: Instant, isProtocolError: Bool = true,
        answer: ((inout ByteBuffer) -> Void)? = nil
    ) {
        guard !connection.hasEnded else { return }
        if connection.isDetached { return close(connection, reason: error.message, now: now) }
        connection.phase = .closing(deadline: now.monotonic + limits.closeTime)
        forgetSession(of: connection)
        for exchange in connection.http?.all ?? [] {
            // What it would still send is waited for no more.
            if connection.http?.http1 != nil { exchange.isHalfClosed = true }
            finish(exchange, Refusal(error))
        }
        connection.end = error.message
        dropStreams(of: connection, now: now)
        connection.output.dropMessages()
        if let answer { connection.output.connectionControl(answer) } else { sayFatal(error, on: connection) }
        connection.output.isSealed = connection.http == nil
        log(.debug, "connection refused", [("peer", connection.peer), ("reason", error.message)])
        let isCounted = isProtocolError && ![.connectionClose, .rejectedResume, .rejectedSetup].contains(error.code)
        if isCounted { counters.protocolErrors += 1 }
        if let limit = LimitReached(error.bound) { reached(limit) }
        updateReading(connection)
        if connection.http?.endsUntold == true { return close(connection, reason: error.message, now: now) }
        flush(connection)
    }

    /// The connection is over: its streams end, its output is given back.
    func close(_ connection: Connection, reason: String, now: Instant) {
        guard !connection.isClosed else { return }
        let reason = connection.end ?? reason
        connection.end = reason
        dropStreams(of: connection, now: now)
        if let http = connection.http { http.takeErrors(into: &counters) }
        connection.http?.http1?.giveBack()
        connection.phase = .closed
        if !connection.isDetached { uncountSocket(of: connection) }
        forgetSession(of: connection)
        charge(connection)
        giveBack(connection)
        connections.remove(connection.handle)
        timers.connections.cancel(connection)
        disenroll(connection)
        effects.close.append(connection.id)
        work.spent += Work.closing
        log(.debug, "connection closed", [("peer", connection.peer), ("reason", reason)])
        if connection.isAnnounced { event("connection-closed", connection: connection, reason: reason) }
    }
}
