// ConnectionEnds: how connections end: with an error, by closing, or by draining when the broker shuts down.

import Bytes
import RSocket

final class ConnectionEnds: ShardPart {
    let timers: Timers
    let connections: ConnectionTable
    let events: Events
    let reading: Reading
    let users: ConnectionUsers
    let httpResponses: HTTPResponses
    let responses: Responses
    let ends: StreamEnds
    // Above
    unowned(unsafe) var resumption: Resumption!

    init(
        _ context: ShardContext, _ timers: Timers, _ connections: ConnectionTable, _ events: Events, _ reading: Reading,
        _ users: ConnectionUsers, _ httpResponses: HTTPResponses, _ responses: Responses, _ ends: StreamEnds
    ) {
        self.timers = timers
        self.connections = connections
        self.events = events
        self.reading = reading
        self.users = users
        self.httpResponses = httpResponses
        self.responses = responses
        self.ends = ends
        super.init(context)
    }

    /// Ends the connection with this fault, and closes it once the error is written.
    func fatal(_ connection: Connection, _ fault: ConnectionFault, now: Instant) {
        fatal(connection, RSocketError(fault), now: now, isProtocolError: fault.kind != .withdrawn)
    }

    /// Reports a connection error to the peer, and closes the connection once the error is written.
    /// - Parameter answer: writes the error for a peer that speaks another protocol.
    func fatal(
        _ connection: Connection, _ error: RSocketError, now: Instant, isProtocolError: Bool = true,
        answer: ((inout ByteBuffer) -> Void)? = nil
    ) {
        guard !connection.hasEnded else { return }
        if connection.isDetached { return close(connection, reason: error.message, now: now) }
        connection.lifecycle.beginClosing(deadline: now.monotonic + limits.closeTime, reason: error.message)
        resumption.endSession(of: connection)
        for exchange in connection.http?.exchanges.all ?? [] {
            // Do not wait for the rest of the request.
            if connection.http?.http1 != nil { exchange.request.isHalfClosed = true }
            var refusal = Refusal(error)
            refusal.endsConnection = true
            httpResponses.finish(exchange, refusal)
        }
        ends.dropStreams(of: connection, now: now)
        connection.output.dropMessages()
        if let answer {
            connection.output.connectionControl(answer)
        } else {
            responses.sendFatal(error, on: connection)
        }
        connection.output.isSealed = connection.http == nil
        log(.debug, "connection refused", [("peer", connection.peer), ("reason", error.message)])
        let isCounted = isProtocolError && ![.connectionClose, .rejectedResume, .rejectedSetup].contains(error.code)
        if isCounted { counters.protocolErrors += 1 }
        if let limit = LimitReached(error.bound) { reached(limit) }
        reading.updateReading(connection)
        if connection.http?.transport.endsSilently == true { return close(connection, reason: error.message, now: now) }
        connections.flush(connection)
    }

    /// Closes the connection: ends its streams and releases its output.
    func close(_ connection: Connection, reason: String, now: Instant) {
        guard !connection.isClosed else { return }
        let reason = connection.lifecycle.reason ?? reason
        ends.dropStreams(of: connection, reason: reason, now: now)
        if let http = connection.http { http.takeErrors(into: &counters) }
        connection.http?.http1?.giveBack()
        connection.lifecycle.close(reason: reason)
        if !connection.isDetached { resumption.uncountSocket(of: connection) }
        resumption.endSession(of: connection)
        connections.charge(connection)
        ends.giveBack(connection)
        connections.remove(connection.handle)
        timers.connections.cancel(connection)
        users.disenroll(connection)
        effects.close.append(connection.id)
        work.spent += Work.closing
        log(.debug, "connection closed", [("peer", connection.peer), ("reason", reason)])
        if connection.lifecycle.isAnnounced {
            events.event("connection-closed", connection: connection, reason: reason)
        }
    }

    // Shutting down

    func drain(_ connection: Connection, now: Instant) {
        connection.lifecycle.beginDraining(now: now.monotonic)
        timers.touch(connection)
        if connection.isDetached { return close(connection, reason: "the broker is shutting down", now: now) }
        guard let http = connection.http, connection.isOpen, http.transport.announceEnd() else { return }
        httpResponses.notifyWatchers(http)
        connections.flush(connection)
    }

    /// Closes a connection of a draining shard once nothing more can be delivered to its client.
    func closeIfDrained(_ connection: Connection, now: Instant) {
        // If everything is written and a list still waits, the peer keeps its window closed, as if without credit.
        guard connection.isWritten, connection.outputWaiterCount == 0, connection.input.parkedBytes == 0,
            connection.waiters.listCount == 0 || connection.http != nil, connection.http?.isWaiting != true
        else { return }
        let (delivered, waiting) = connection.standing
        let since = connection.lifecycle.drain(delivered: delivered, now: now.monotonic)
        if waiting > 0, since < limits.askTime { return }
        counters.undelivered &+= waiting
        let notice = RSocketError(
            code: .connectionClose, sentence: Refusal.draining.sentence, scope: .connection)
        fatal(connection, notice, now: now)
    }
}
