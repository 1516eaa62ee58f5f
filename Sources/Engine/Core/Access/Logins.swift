// Logins: how a connection, or a request over HTTP, comes to its principal. What is slow about it – the hash of a
// password, the signature of a token – is the driver's: the engine asks by an effect, and whoever asked to be let in
// waits for the answer.
//
//     no credentials ──────────────────────────▶ the user of the client certificate, or anonymous, or refused
//     credentials ──Effects.logins──▶ waiting ──authenticated──▶ a user, or refused

import Bytes

/// Names what waits for an answer. A stale one is harmless.
public struct LoginTicket: Sendable, Hashable {
    var connection: ConnectionID
    /// Of the exchange over HTTP; not used for RSocket.
    var exchange: UInt32
    /// Never given out twice.
    public var number: UInt64
    /// Whose login it is said to be.
    public var claim = LoginClaim.none
}

/// Whose login something is said to be, for the log: a name that no user has may be a password, typed into the wrong
/// field, and is not kept.
public enum LoginClaim: Sendable, Hashable {
    case user(String)
    /// A name that no user has.
    case unknown
    /// There is no name with a token.
    case none

    init(_ credential: Credential, _ access: AccessTable) {
        switch credential {
        case .password(let name, _): self = access.user(name).map { .user($0.name) } ?? .unknown
        case .token: self = .none
        }
    }
}

/// What came of what somebody said of who it is, as it is counted.
public enum LoginResult: Sendable {
    case accepted, refused
    /// Not looked at, as too many had failed.
    case slowed
    /// Nothing was said, where that is not enough.
    case missing
    /// It is known who it is, and that it may not do what it asks for.
    case denied
}

/// Credentials to be looked at; to be answered by `Shard.authenticated`, whatever comes of it.
public struct LoginRequest: Sendable {
    public var ticket: LoginTicket
    public var credential: Credential
    /// The peer's address without its port: those who guess are slowed down by it.
    public var address: String
}

/// What became of credentials.
public enum LoginOutcome: Sendable {
    case accepted(Principal)
    /// No more is told than that, so that nobody learns which users there are.
    case wrong
    /// A token with a good signature is no longer valid, or not yet.
    case expired(user: String?)
    case notYetValid
    /// Too many failed from this address: seconds after which the next are looked at.
    case slowed(seconds: Int)
    /// Too many wait to be looked at.
    case busy
}

extension LoginOutcome {
    /// Whose login it was, where that was found out; else as it was said to be.
    public func claim(or claim: LoginClaim) -> LoginClaim {
        if case .expired(let user?) = self { return .user(user) }
        return claim
    }

    /// Of one that nobody was let in by.
    public var counted: LoginResult {
        switch self {
        case .accepted: .accepted
        case .slowed: .slowed
        case .wrong, .expired, .notYetValid, .busy: .refused
        }
    }

    var result: Result<Principal, Refusal> {
        switch self {
        case .accepted(let principal): .success(principal)
        case .wrong:
            .failure(
                Refusal(.unauthenticated, "The credentials are not right; check the name and password, or the token."))
        case .expired: .failure(LoginOutcome.expiredRefusal)
        case .notYetValid: .failure(Refusal(.unauthenticated, "The token is not valid yet; use it later."))
        case .slowed(let seconds):
            .failure(
                Refusal(
                    .limit, "Too many logins failed from this address; try again in \(seconds) s.", retryAfter: seconds)
            )
        case .busy: .failure(.rejected("The broker has too many logins to deal with; try again in a few seconds."))
        }
    }

    static var expiredRefusal: Refusal { Refusal(.unauthenticated, "The token has expired; get a new one.") }
    static var neededRefusal: Refusal {
        Refusal(.unauthenticated, "This broker needs credentials; send a user's name and password, or a token.")
    }
}

extension Shard {
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
        lastTicket += 1
        let ticket = LoginTicket(
            connection: connection.id, exchange: exchange, number: lastTicket, claim: LoginClaim(credential, access))
        effects.logins.append(LoginRequest(ticket: ticket, credential: credential, address: connection.address))
        return lastTicket
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
