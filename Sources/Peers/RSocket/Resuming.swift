// Resuming: a connection that outlives its socket, with RSocket's RESUME.
//
//     attached ──socket closed or silent───────▶ detached ──resume-time──▶ closed
//         ▲ └──RESUME by another socket──▶ ┐         │
//         └────────────────────────────────┴──RESUME─┘
//
// A detached connection behaves like one whose socket accepts no output. Its subscriptions keep their credit, cursors
// and policies, its channels keep their credit, and output on its streams is kept. RESUME identifies the connection by
// its token, whatever its shard; the new socket moves to that shard with the bytes already read from it.

import Bytes
import ForebayWire
import RSocket

final class Resumption: ShardPart {
    let timers: Timers
    let connections: ConnectionTable
    let events: Events
    let responses: Responses
    let connectionEnds: ConnectionEnds
    let feeding: OutputFeeding
    let inputs: ConnectionInputs
    // Above
    unowned(unsafe) var scheduler: Scheduler!

    init(
        _ context: ShardContext, _ timers: Timers, _ connections: ConnectionTable, _ events: Events,
        _ responses: Responses, _ connectionEnds: ConnectionEnds, _ feeding: OutputFeeding, _ inputs: ConnectionInputs
    ) {
        self.timers = timers
        self.connections = connections
        self.events = events
        self.responses = responses
        self.connectionEnds = connectionEnds
        self.feeding = feeding
        self.inputs = inputs
        super.init(context)
    }

    // Starting a session

    /// Checks what can be checked of a SETUP's token before the user is known.
    func checkToken(_ token: UnsafeRawBufferPointer?) throws(Refusal) {
        guard let token else { return }
        guard limits.resumeTime > 0 else {
            throw Refusal(.unsupported, "Resumption is not enabled; connect without a resume token.")
        }
        guard Limits.resumeToken.contains(token.count) else {
            throw .invalid(
                "The resume token has \(token.count) bytes; use \(Limits.resumeToken.lowerBound) to "
                    + "\(Limits.resumeToken.upperBound), at least 16 of them random.")
        }
    }

    /// Begins a session on an admitted connection, if the client requested one: it can be resumed from now on.
    func beginSession(_ connection: Connection, _ token: [UInt8]?) throws(Refusal) {
        guard let token else { return }
        let account = connection.rateLimit?.account
        if let account, !account.sessions.take(limit: limits.sessionsPerUser) {
            throw refusal(
                at: .sessionsPerUser,
                "\(account.titleHas) \(counted(limits.sessionsPerUser, "resumable connection")), the maximum; "
                    + "close some, or connect without a resume token.")
        }
        let place = SessionPlace(shard: index, connection: connection.id)
        switch quotas.sessions.enter(token, place, limit: limits.sessions) {
        case .entered:
            connection.session = Session(token: token, account: account)
            connection.output.keep(window: limits.resumeBuffer, answers: limits.controlOutput)
        case .taken:
            account?.sessions.give()
            throw .invalid("The resume token is in use by another connection; use a new random token for each.")
        case .full:
            account?.sessions.give()
            throw refusal(
                at: .sessions,
                "The broker has \(counted(limits.sessions, "resumable connection")), the maximum; "
                    + "try again later, or connect without a resume token.")
        }
    }

    func endSession(of connection: Connection) {
        guard let session = connection.session else { return }
        if session.detachedAt != nil { counters.detached -= 1 }
        quotas.sessions.remove(session.token)
        session.account?.sessions.give()
        connection.session = nil
    }

    // Without a socket

    /// Detaches a connection whose socket is no longer usable, if another socket may resume it; otherwise closes it.
    func unplug(_ connection: Connection, reason: String, now: Instant) {
        guard let session = connection.session, connection.isOpen, !draining, limits.resumeTime > 0 else {
            return connectionEnds.close(connection, reason: reason, now: now)
        }
        guard session.detachedAt == nil else { return }
        uncountSocket(of: connection)
        session.detachedAt = now.monotonic
        counters.detached += 1
        detachSocket(connection, session)
        effects.close.append(connection.id)
        log(.debug, "connection detached", [("peer", connection.peer), ("reason", reason)])
        events.event("connection-detached", connection: connection, reason: reason)
    }

    /// Stops counting the connection's socket and its address.
    func uncountSocket(of connection: Connection) {
        quotas.connections.give()
        quotas.disconnect(connection.address)
    }

    private func detachSocket(_ connection: Connection, _ session: Session) {
        session.askedAt = nil
        connection.rsocket.detach()
        connection.output.detach()
        // The client resends the input that was set aside.
        connection.input.isHeld = false
        connection.lists.isFlushing = false
        connection.liveness.unreadSince = nil
        connections.charge(connection)
    }

    /// Limits how long a connection may wait for a socket.
    func tickDetached(_ connection: Connection, since: UInt64, now: Instant) {
        if connection.isExpelled || connection.principal?.expires.map({ now.wall >= $0 }) == true {
            return connectionEnds.close(connection, reason: "the user may no longer log in", now: now)
        }
        // A stream that has ended may have held an incomplete message.
        connections.charge(connection)
        guard now.monotonic - since >= limits.resumeTime else { return }
        reached(.resumeTime)
        connectionEnds.close(connection, reason: "it was not resumed in time", now: now)
    }

    // What the peer has received

    /// Handles the position up to which the peer has received, as reported by a KEEPALIVE.
    func heard(_ position: UInt64, on connection: Connection, now: Instant) {
        guard let session = connection.session else { return }
        // The peer may acknowledge output that was already given up.
        let isNew = connection.output.acknowledge(position) || position > session.reported
        guard isNew else { return }
        session.reported = position
        session.askedAt = nil
        session.isFull = false
        askForAcknowledgement(connection)
        feeding.fill(connection, now: now)
    }

    /// Asks the peer for its position before the lack of an acknowledgement holds messages back.
    func askForAcknowledgement(_ connection: Connection) {
        guard let session = connection.session else { return }
        if connection.output.isFull, !session.isFull {
            session.isFull = true
            reached(.resumeBuffer)
        }
        guard session.askedAt == nil, connection.output.wantsAcknowledgement else { return }
        session.askedAt = moment.monotonic
        responses.sendProbe(on: connection)
    }

    /// If memory is short, discards sent output of peers that were asked for an acknowledgement and have not replied,
    /// or that have been detached for as long. Their connections stay, but cannot be resumed from a position that was
    /// discarded.
    func giveUpUnacknowledged(now: Instant) {
        guard memory.isFull, quotas.sessions.count > 0, !scheduler.isSweeping(.unacknowledged) else {
            return
        }
        scheduler.sweep(.unacknowledged, now: now)
    }

    func giveUpUnacknowledged(of connection: Connection, now: Instant) {
        guard let session = connection.session, let since = session.detachedAt ?? session.askedAt,
            now.monotonic - since >= Limits.acknowledgementTime
        else { return }
        connection.output.giveUpSent()
        session.askedAt = nil
        if !connection.isDetached { feeding.fill(connection, now: now) }
    }

    // RESUME

    /// Hands over the socket of a new connection that asks to resume a session.
    func handOver(_ connection: Connection, _ request: ResumeRequest, now: Instant) {
        guard !draining, let place = quotas.sessions.find(Array(request.token)) else {
            counters.resumptionsRefused &+= 1
            return connectionEnds.fatal(
                connection, Resumption.resumeRefusal(.notFound, "The session does not exist, or has ended"), now: now)
        }
        effects.handovers.append(
            Handover(
                from: connection.id, shard: place.shard, session: place.connection,
                lastReceivedServerPosition: request.lastReceivedServerPosition,
                firstAvailableClientPosition: request.firstAvailableClientPosition,
                rest: connection.rsocket.takeRest(), peer: connection.peer, certificate: connection.certificate,
                isSecured: connection.remote.isSecured))
        connection.lifecycle.close(reason: "a session took over its socket")
        connections.charge(connection)
        connections.remove(connection.handle)
        timers.connections.cancel(connection)
        uncountSocket(of: connection)
    }

    /// Takes a socket that a shard named in `Effects.handovers`. Returns the connection that it now belongs to, which
    /// may have had another socket before. That may also be a new connection that only receives an error and is closed.
    func takeOver(_ handover: Handover, now: Instant) -> ConnectionID {
        let connection: Connection
        do throws(RSocketError) {
            connection = try session(for: handover)
        } catch {
            counters.resumptionsRefused &+= 1
            return turnAway(handover, error, now: now)
        }
        attach(connection, to: handover, now: now)
        return connection.id
    }

    /// The session that a handover may resume, rewound to the peer's position.
    private func session(for handover: Handover) throws(RSocketError) -> Connection {
        guard !draining, let connection = connections.find(handover.session), connection.session != nil,
            connection.isOpen,
            !connection.isExpelled, connection.certificate == handover.certificate,
            connection.remote.isSecured == handover.isSecured
        else { throw Resumption.resumeRefusal(.notFound, "The session does not exist, or has ended") }
        let received = connection.rsocket.received
        guard handover.firstAvailableClientPosition <= received else {
            throw Resumption.resumeRefusal(.gap, "The client no longer has the data from position \(received) on")
        }
        let position = handover.lastReceivedServerPosition
        guard connection.output.rewind(to: position) else {
            let fault = Resumption.words(connection.output.fault(of: position))
            throw Resumption.resumeRefusal(.gap, "The session cannot continue from position \(position), \(fault)")
        }
        return connection
    }

    private static func words(_ fault: ResumeStore.Fault) -> String {
        switch fault {
        case .gone: "because the data from there on is no longer kept"
        case .ahead(let sent): "which is ahead of the \(sent) bytes that were sent"
        case .within: "which is not the beginning of a frame"
        }
    }

    private func attach(_ connection: Connection, to handover: Handover, now: Instant) {
        guard let session = connection.session else { return }
        if let since = session.detachedAt {
            counters.detached -= 1
            connection.rsocket.extendReassembly(by: now.monotonic - since)
            session.detachedAt = nil
            session.askedAt = nil
            connection.lists.isFlushing = false
        } else {
            // The old socket may still be open, but the peer has abandoned it.
            uncountSocket(of: connection)
            detachSocket(connection, session)
            connection.output.blocked = false
        }
        connection.remote.move(to: handover.peer, countAgain(handover))
        session.reported = handover.lastReceivedServerPosition
        connection.liveness.lastHeard = now.monotonic
        connection.liveness.probed = false
        connection.input.isReading = true
        counters.resumptionsAccepted &+= 1
        log(.debug, "connection resumed", [("peer", connection.peer)])
        events.event("connection-resumed", connection: connection, reason: nil)
        let received = connection.rsocket.received
        connection.output.connectionControl { FrameWriter.resumeOK(lastReceivedClientPosition: received, into: &$0) }
        connections.flush(connection)
        handover.rest.withUnsafeBytes { rest in
            connection.rsocket.feed(rest, now: now.monotonic)
            inputs.take(connection, now: now)
        }
        connections.charge(connection)
    }

    /// Refuses a resumption, on a new connection made for that.
    private func turnAway(_ handover: Handover, _ error: RSocketError, now: Instant) -> ConnectionID {
        let address = countAgain(handover)
        let connection = connections.insert { handle in
            Connection(
                handle: handle, peer: handover.peer, address: address, wireProtocol: .rsocket, limits: limits,
                pool: pool,
                now: now.monotonic)
        }
        connectionEnds.fatal(connection, error, now: now)
        return connection.id
    }

    /// Counts a socket again that was just uncounted. Returns its address.
    private func countAgain(_ handover: Handover) -> String {
        let address = Connection.address(of: handover.peer)
        _ = quotas.connections.take(limit: .max)
        _ = quotas.connect(address, limit: .max)
        return address
    }

    private static func resumeRefusal(_ word: ErrorWord, _ reason: String) -> RSocketError {
        RSocketError(
            code: .rejectedResume, word: word, sentence: "\(reason); reconnect with SETUP.", scope: .connection)
    }
}
