// Logins: how a connection or an HTTP request gets its principal. The driver does the slow part, such as hashing a
// password or verifying a token's signature: the engine requests this with an effect, and the login waits for the
// result.
//
//     no credentials ──────────────────────────▶ the user of the client certificate, or anonymous, or refused
//     credentials ──Effects.logins──▶ waiting ──authenticated──▶ a user, or refused

import Bytes

final class Logins: ShardPart {
    let connections: ConnectionTable
    let peers: PeerState
    let events: Events
    let authorization: Authorization
    let users: ConnectionUsers
    let connectionEnds: ConnectionEnds
    // Above
    unowned(unsafe) var httpLogins: HTTPLogins!
    unowned(unsafe) var inputs: ConnectionInputs!
    unowned(unsafe) var resumption: Resumption!

    init(
        _ context: ShardContext, _ connections: ConnectionTable, _ peers: PeerState, _ events: Events,
        _ authorization: Authorization, _ users: ConnectionUsers, _ connectionEnds: ConnectionEnds
    ) {
        self.connections = connections
        self.peers = peers
        self.events = events
        self.authorization = authorization
        self.users = users
        self.connectionEnds = connectionEnds
        super.init(context)
    }

    func welcome(_ connection: Connection, _ principal: Principal, resumeToken: [UInt8]?) throws(Refusal) {
        try users.enroll(connection, principal)
        try resumption.beginSession(connection, resumeToken)
        connection.login.accept(principal)
        connection.lifecycle.open()
        connection.rsocket.acceptSetup()
        events.event("connection-opened", connection: connection, reason: nil)
    }

    func turnAway(_ connection: Connection, _ refusal: Refusal, now: Instant) {
        connectionEnds.fatal(connection, ConnectionFault(.rejectedSetup, refusal), now: now)
    }

    /// Records a failed login.
    func refused(_ connection: Connection, _ refusal: Refusal, _ claim: LoginClaim) {
        counters.count(refusal.isSlowing ? .slowed : .refused)
        effects.log.append(
            .loginRefused(refusal.message, claim, over: connection.http == nil ? "rsocket" : "http", connection.peer))
    }

    /// The refusal of a client that sent no credentials. That does not count as a login, unless the client has a
    /// certificate that matches no user.
    func missing(_ connection: Connection) -> Refusal {
        let refusal = LoginOutcome.neededRefusal
        if connection.certificate == nil { counters.count(.missing) } else { refused(connection, refusal, .unknown) }
        return refusal
    }

    func ask(_ credential: Credential, _ connection: Connection, exchange: UInt32) -> UInt64 {
        peers.lastTicket += 1
        let ticket = LoginTicket(
            connection: connection.id, exchange: exchange, number: peers.lastTicket,
            claim: LoginClaim(credential, authorization.access))
        effects.logins.append(LoginRequest(ticket: ticket, credential: credential, address: connection.address))
        return peers.lastTicket
    }

    // The result

    /// Continues what waited for a login: the driver has checked credentials from `Effects.logins`.
    func authenticated(_ ticket: LoginTicket, _ outcome: LoginOutcome, now: Instant) {
        guard let connection = connections.find(ticket.connection) else { return }
        var result = outcome.result
        // The users may have been reloaded since the request.
        if case .success(let principal) = result {
            result = authorization.access.current(principal).map { .success($0) } ?? LoginOutcome.wrong.result
        }
        if let http = connection.http {
            guard let exchange = http.exchange(at: ticket.exchange), exchange.request.ticket == ticket.number else {
                return
            }
            httpLogins.answered(exchange, http, result, outcome.claim(or: ticket.claim), now: now)
        } else if let pending = connection.login.takePending(ticket.number) {
            answered(pending, connection, result, outcome.claim(or: ticket.claim), now: now)
        }
        connections.charge(connection)
    }

    private func answered(
        _ pending: Login.Pending, _ connection: Connection, _ result: Result<Principal, Refusal>, _ claim: LoginClaim,
        now: Instant
    ) {
        guard case .new = connection.phase else { return }
        switch result {
        case .success(let principal):
            counters.count(.accepted)
            connection.liveness.lastHeard = now.monotonic
            do throws(Refusal) {
                try welcome(connection, principal, resumeToken: pending.resumeToken)
            } catch {
                return turnAway(connection, error, now: now)
            }
            inputs.resume(connection, now: now)
        case .failure(let refusal):
            refused(connection, refusal, claim)
            turnAway(connection, refusal, now: now)
        }
    }
}
