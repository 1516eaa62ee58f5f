// ConnectionTicks: applies a connection's time limits: missing set-up, silence, unread responses, expired credentials.

final class ConnectionTicks: ShardPart {
    let timers: Timers
    let connections: ConnectionTable
    let httpResponses: HTTPResponses
    let responses: Responses
    let connectionEnds: ConnectionEnds
    let httpCalls: HTTPCalls
    let feeding: OutputFeeding
    let httpInputs: HTTPInputs
    let inputs: ConnectionInputs
    let resumption: Resumption
    let http1Inputs: HTTP1Inputs

    init(
        _ context: ShardContext, _ timers: Timers, _ connections: ConnectionTable, _ httpResponses: HTTPResponses,
        _ responses: Responses, _ connectionEnds: ConnectionEnds, _ httpCalls: HTTPCalls, _ feeding: OutputFeeding,
        _ httpInputs: HTTPInputs, _ inputs: ConnectionInputs, _ resumption: Resumption, _ http1Inputs: HTTP1Inputs
    ) {
        self.timers = timers
        self.connections = connections
        self.httpResponses = httpResponses
        self.responses = responses
        self.connectionEnds = connectionEnds
        self.httpCalls = httpCalls
        self.feeding = feeding
        self.httpInputs = httpInputs
        self.inputs = inputs
        self.resumption = resumption
        self.http1Inputs = http1Inputs
        super.init(context)
    }

    func visit(_ connection: Connection, now: Instant) {
        guard !connection.isClosed else { return }
        connection.excuse(timers.stoodStill, now: now.monotonic)
        tick(connection, now: now)
        guard !connection.isClosed else { return timers.connections.cancel(connection) }
        timers.connections.schedule(
            connection, by: Swift.max(deadline(of: connection, now: now), now.monotonic + 1))
    }

    /// When time may next change something about a connection.
    private func deadline(of connection: Connection, now: Instant) -> UInt64 {
        let soon = now.monotonic + Timers.interval
        switch connection.phase {
        case .new where draining || connection.login.isPending: return soon
        case .new: return connection.liveness.setupSince.addingClamped(limits.setupTime)
        case .open where draining || !connection.input.isReading || connection.isExpelled: return soon
        case .open:
            return Swift.min(connection.timeLimit(limits, soon: soon), expiry(of: connection, now: now))
        case .closing(let deadline): return deadline
        case .closed: return .max
        }
    }

    /// When a connection's credentials expire, by the wall clock as it is now.
    private func expiry(of connection: Connection, now: Instant) -> UInt64 {
        let wall = connection.http == nil ? connection.principal?.expires : connection.http?.users.expiry.time
        guard let wall else { return .max }
        let left = wall.subtractingReportingOverflow(now.wall)
        if left.overflow { return wall < now.wall ? now.monotonic : .max }
        // The wall clock may be adjusted, so an expiry computed from it is trusted for at most a second.
        let time = Swift.min(UInt64(Swift.max(0, left.partialValue)), Limits.second)
        return now.monotonic.addingClamped(time)
    }

    private func tick(_ connection: Connection, now: Instant) {
        let time = now.monotonic
        switch connection.phase {
        case .new where draining:
            // Over HTTP there may be no request to respond to yet; the driver answers requests that it has not handed
            // over.
            if let http = connection.http, http.session == nil {
                return connectionEnds.close(connection, reason: "the broker is shutting down", now: now)
            }
            connectionEnds.fatal(connection, ConnectionFault(.rejectedSetup, Refusal.draining), now: now)
        // The driver replies in time.
        case .new where connection.login.isPending:
            break
        case .new:
            // While the shard was busy with earlier connections, it may not have read this connection's bytes.
            connection.liveness.delaySetup(until: timers.lateness, now: time)
            guard time - connection.liveness.setupSince >= limits.setupTime else { return }
            reached(.setupTime)
            if let http = connection.http, http.session == nil {
                return connectionEnds.close(connection, reason: "no request was completed in time", now: now)
            }
            let due = connection.http == nil ? "SETUP" : "The HTTP/2 preface with SETTINGS"
            connectionEnds.fatal(
                connection,
                ConnectionFault(
                    .invalidSetup, .timeout, "\(due) did not arrive in time; send it immediately after connecting."),
                now: now)
        case .open where connection.isDetached:
            resumption.tickDetached(connection, since: connection.session?.detachedAt ?? time, now: now)
        case .open:
            endExpired(connection, now: now)
            if connection.isOpen { tickOpen(connection, now: now) }
            if draining, connection.isOpen { connectionEnds.closeIfDrained(connection, now: now) }
        case .closing(let deadline):
            if time >= deadline { connectionEnds.close(connection, reason: "closed after an error", now: now) }
        case .closed:
            break
        }
    }

    private func tickOpen(_ connection: Connection, now: Instant) {
        if let http = connection.http, let http1 = http.http1 {
            return http1Inputs.tickHTTP1(connection, http, http1, now: now)
        }
        if !connection.input.isReading {
            // Nothing arrives from a peer that is not being read.
            connection.liveness.lastHeard = now.monotonic
            // What the connection waits for may be available without any input on this connection: other connections
            // may have released memory.
            inputs.resume(connection, now: now)
            guard connection.isOpen else { return }
        }
        let silent = now.monotonic - connection.liveness.lastHeard
        if silent >= connection.liveness.lifetime {
            let seconds = connection.liveness.lifetime / Limits.second
            let remedy = connection.http == nil ? "send KEEPALIVE" : "send PING regularly"
            reached(connection.http == nil ? .lifetime : .httpSilence)
            if connection.session != nil {
                return resumption.unplug(connection, reason: "nothing was received in time", now: now)
            }
            connectionEnds.fatal(
                connection,
                ConnectionFault(.failed, .timeout, "Nothing was received for \(seconds) s; \(remedy)."),
                now: now)
            return
        }
        if silent >= connection.liveness.lifetime / 2, !connection.liveness.probed {
            connection.liveness.probed = true
            responses.sendProbe(on: connection)
        }
        if let since = connection.liveness.unreadSince, now.monotonic - since >= limits.unreadTime {
            reached(.unreadTime)
            resumption.unplug(connection, reason: "it did not read its responses", now: now)
            return
        }
        // Continue what a shortage of memory held back. Memory may be available now if it was not at the last write.
        if connection.session != nil {
            resumption.askForAcknowledgement(connection)
            if connection.outputWaiterCount > 0 || connection.waiters.listCount > 0 {
                feeding.fill(connection, now: now)
            }
        }
        if let since = connection.rsocket.oldestReassembly, now.monotonic - since >= limits.reassemblyTime {
            connection.rsocket.expireReassembly(startedBefore: now.monotonic - limits.reassemblyTime + 1)
            inputs.take(connection, now: now)
        }
        if let http = connection.http, let session = http.session {
            if session.pointee.hasPartialFrame, silent >= limits.reassemblyTime {
                reached(.reassemblyTime)
                let reason = "A frame was not completed in time; send complete frames."
                return connectionEnds.fatal(connection, ConnectionFault(.failed, .timeout, reason), now: now)
            }
            http.takeErrors(into: &counters)
            httpInputs.expire(http, now: now)
            feeding.feedWindowWaiters(http, now: now)
            httpResponses.sendHeartbeats(http, now: now)
            if let deadline = session.pointee.deadline, deadline <= now.monotonic {
                session.pointee.expire(now: now.monotonic)
                connections.flush(connection)
            }
        }
        connections.charge(connection)
    }

    /// Ends streams whose token has expired, and the connection of a user that no longer exists.
    func endExpired(_ connection: Connection, now: Instant) {
        guard let http = connection.http else {
            if let expires = connection.principal?.expires, now.wall >= expires {
                connectionEnds.fatal(
                    connection, ConnectionFault(.withdrawn, LoginOutcome.expiredRefusal), now: now)
            } else if connection.isExpelled, connection.isWritten {
                connectionEnds.fatal(
                    connection, ConnectionFault(.withdrawn, .unauthenticated, "The user was removed from this broker."),
                    now: now)
            }
            return
        }
        guard http.users.expiry.take(now: now.wall) else { return }
        for exchange in http.exchanges.all where !exchange.isFinished {
            guard let expires = exchange.principal?.expires else { continue }
            guard now.wall >= expires else {
                http.users.expiry.note(expires)
                continue
            }
            let refusal = LoginOutcome.expiredRefusal
            httpCalls.leave(exchange, .cancelled, reason: refusal.message, now: now)
            httpResponses.finish(exchange, refusal)
        }
        if let expires = http.users.login?.principal.expires, now.wall >= expires { http.users.login = nil }
    }

    /// Closes an HTTP/2 connection whose client's windows have held back responses for too long: the client has as long
    /// to take them as one that leaves them unread. Called while so much input is pending that other connections may
    /// not begin more.
    func limitHoldingBack(_ connection: Connection, now: Instant) {
        guard let http = connection.http, http.session != nil else { return }
        guard http.exchanges.unwritten > Limits.unwrittenAnswers else { return http.exchanges.holdsBack = nil }
        guard let (since, done) = http.exchanges.holdsBack,
            http.exchanges.done - done <= UInt64(Limits.unwrittenAnswers)
        else {
            return http.exchanges.holdsBack = (now.monotonic, http.exchanges.done)
        }
        guard now.monotonic - since >= limits.unreadTime else { return }
        reached(.unreadTime)
        connectionEnds.close(connection, reason: "it did not read its responses", now: now)
    }
}
