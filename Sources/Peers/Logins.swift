// Logins: how a connection, or a request over HTTP, comes to its principal. What is slow about it – the hash of a
// password, the signature of a token – is the driver's: the engine asks by an effect, and whoever asked to be let in
// waits for the answer.
//
//     no credentials ──────────────────────────▶ the user of the client certificate, or anonymous, or refused
//     credentials ──Effects.logins──▶ waiting ──authenticated──▶ a user, or refused

import Bytes

final class Logins: ShardPart {//@
    /// Who a connection is if nothing more is said; nil if that is not enough.
    func unasked(_ connection: Connection) -> Principal? {
        access.unasked(connection.certificate)
    }

    func welcome(_ connection: Connection, _ principal: Principal) throws(Refusal) {
        try enroll(connection, principal)
        try beginSession(connection)
        connection.principal = principal
        connection.phase = .open
        connection.rsocket.acceptSetup()
        connection.isAnnounced = true
        event("connection-opened", connection: connection, reason: nil)
    }

    func turnAway(_ connection: Connection, _ refusal: Refusal, now: Instant) {
        fatal(connection, ConnectionFault(.rejectedSetup, refusal.message), now: now)
    }

    /// A login came to nothing.
    func refused(_ connection: Connection, _ refusal: Refusal, _ claim: LoginClaim) {
        count(refusal.isSlowing ? .slowed : .refused)
        effects.log.append(
            .loginRefused(refusal.message, claim, over: connection.http == nil ? "rsocket" : "http", connection.peer))
    }

    /// Nothing was said of who it is. That is no login; unless there is a certificate, by which nobody is known.
    func missing(_ connection: Connection) -> Refusal {
        let refusal = LoginOutcome.neededRefusal
        if connection.certificate == nil { count(.missing) } else { refused(connection, refusal, .unknown) }
        return refusal
    }

    /// Somebody, here or at the admin listener, said who it is, or did not.
    public func count(_ result: LoginResult) {
        switch result {
        case .accepted: counters.loginsAccepted += 1
        case .refused: counters.loginsRefused += 1
        case .slowed: counters.loginsSlowed += 1
        case .missing: counters.loginsMissing += 1
        case .denied: counters.denied += 1
        }
    }

    func ask(_ credential: Credential, _ connection: Connection, exchange: UInt32) -> UInt64 {
        peers.lastTicket += 1
        let ticket = LoginTicket(
            connection: connection.id, exchange: exchange, number: peers.lastTicket,
            claim: LoginClaim(credential, access))
        effects.logins.append(LoginRequest(ticket: ticket, credential: credential, address: connection.address))
        return peers.lastTicket
    }

    // The answer

    /// Credentials that `Effects.logins` named were looked at.
    public func authenticated(_ ticket: LoginTicket, _ outcome: LoginOutcome, now: Instant) {
        moment = now
        guard let connection = find(ticket.connection) else { return }
        var result = outcome.result
        // There may have been a reload since.
        if case .success(let principal) = result {
            result = access.current(principal).map { .success($0) } ?? LoginOutcome.wrong.result
        }
        if let http = connection.http {
            guard let exchange = http.exchange(at: ticket.exchange), exchange.ticket == ticket.number else { return }
            answered(exchange, http, result, outcome.claim(or: ticket.claim), now: now)
        } else if connection.ticket == ticket.number {
            connection.ticket = nil
            answered(connection, result, outcome.claim(or: ticket.claim), now: now)
        }
        charge(connection)
        settle(now)
    }

    private func answered(
        _ connection: Connection, _ result: Result<Principal, Refusal>, _ claim: LoginClaim, now: Instant
    ) {
        guard case .new = connection.phase else { return }
        switch result {
        case .success(let principal):
            count(.accepted)
            connection.lastHeard = now.monotonic
            do throws(Refusal) {
                try welcome(connection, principal)
            } catch {
                return turnAway(connection, error, now: now)
            }
            resume(connection, now: now)
        case .failure(let refusal):
            refused(connection, refusal, claim)
            turnAway(connection, refusal, now: now)
        }
    }

}
