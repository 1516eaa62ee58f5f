// Logins: how a connection, or a request over HTTP, comes to its principal. What is slow about it – the hash of a
// password, the signature of a token – is the driver's: the engine asks by an effect, and whoever asked to be let in
// waits for the answer.
//
//     no credentials ──────────────────────────▶ the user of the client certificate, or anonymous, or refused
//     credentials ──Effects.logins──▶ waiting ──authenticated──▶ a user, or refused

import Bytes
import HTTP2
import RSocket

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

extension LoginRequest {
    /// The `authorization` of a request that is none of the engine's; `number` is its asker's own.
    /// - Parameters:
    ///   - peer: address and port.
    ///   - access: who is known.
    public init(number: UInt64, authorization: String, peer: String, access: AccessTable) throws(Problem) {
        do throws(Refusal) {
            credential = try Credential(authorization: authorization)
        } catch {
            throw error.problem
        }
        ticket = LoginTicket(
            connection: ConnectionID(index: 0, generation: 0), exchange: 0, number: number,
            claim: LoginClaim(credential, access))
        address = Connection.address(of: peer)
    }
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
    /// Who it is.
    public func admitted() throws(Problem) -> Principal {
        switch result {
        case .success(let principal): return principal
        case .failure(let refusal): throw refusal.problem
        }
    }

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

    // RSocket: once, at SETUP

    /// Lets a connection in by what its SETUP says, now or later.
    func logIn(_ connection: Connection, _ setup: Setup, now: Instant) {
        do throws(Refusal) {
            try checkToken(setup.resumeToken)
            connection.resumeToken = setup.resumeToken.map { Array($0) }
            if !access.isOpen, let credential = try Credential(setup) {
                connection.ticket = ask(credential, connection, exchange: .max)
                return
            }
            guard let principal = unasked(connection) else {
                return turnAway(connection, missing(connection), now: now)
            }
            try welcome(connection, principal)
        } catch {
            // Who has reached a limit is known.
            if error.kind == .unauthenticated { refused(connection, error, .none) }
            turnAway(connection, error, now: now)
        }
    }

    private func welcome(_ connection: Connection, _ principal: Principal) throws(Refusal) {
        try enroll(connection, principal)
        try beginSession(connection)
        connection.principal = principal
        connection.phase = .open
        connection.rsocket.acceptSetup()
        connection.isAnnounced = true
        event("connection-opened", connection: connection, reason: nil)
    }

    private func turnAway(_ connection: Connection, _ refusal: Refusal, now: Instant) {
        fatal(
            connection, RSocketError(code: .rejectedSetup, message: refusal.message, scope: .connection), now: now)
    }

    /// A login came to nothing.
    private func refused(_ connection: Connection, _ refusal: Refusal, _ claim: LoginClaim) {
        count(refusal.isSlowing ? .slowed : .refused)
        effects.log.append(
            .loginRefused(refusal.message, claim, over: connection.http == nil ? "rsocket" : "http", connection.peer))
    }

    /// Nothing was said of who it is. That is no login; unless there is a certificate, by which nobody is known.
    private func missing(_ connection: Connection) -> Refusal {
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

    // HTTP: for each request

    /// Finds out who makes a request. False: it waits for the answer, and `admit` goes on with it.
    func identify(_ exchange: Exchange, _ authorization: String?, _ http: HTTPFace) throws(Refusal) -> Bool {
        guard let authorization, !access.isOpen else {
            guard let principal = exchange.connection.principal else { throw missing(exchange.connection) }
            try admit(exchange, as: principal)
            return true
        }
        do throws(Refusal) {
            return try lookUp(exchange, authorization, http)
        } catch {
            if error.kind == .unauthenticated {
                let login = http.login.flatMap { isSameSecret($0.authorization, authorization) ? $0.principal : nil }
                refused(exchange.connection, error, login?.user.map { .user($0) } ?? .none)
            }
            throw error
        }
    }

    private func lookUp(_ exchange: Exchange, _ authorization: String, _ http: HTTPFace) throws(Refusal) -> Bool {
        let connection = exchange.connection
        // Most clients say the same in every request of a connection.
        if let login = http.login, isSameSecret(login.authorization, authorization) {
            try admit(exchange, as: login.principal)
            if let expires = login.principal.expires {
                guard moment.wall < expires else { throw LoginOutcome.expiredRefusal }
                http.noteExpiry(expires)
            }
            return true
        }
        let credential = try Credential(authorization: authorization)
        exchange.ticket = ask(credential, connection, exchange: exchange.handle.index)
        exchange.authorization = authorization
        return false
    }

    private func admit(_ exchange: Exchange, as principal: Principal) throws(Refusal) {
        try enroll(exchange.connection, principal)
        exchange.principal = principal
        exchange.meter = exchange.connection.meter
        exchange.connection.http?.beginSpeaking(exchange)
    }

    /// A call begins once it is known who makes it, unless anybody may.
    func begin(
        _ call: GRPCCall, _ exchange: Exchange, _ http: HTTPFace, _ fields: [(name: String, value: String)],
        now: Instant
    ) {
        if !call.method.isHealth, !call.method.isReflection {
            let credentials = fields.filter { $0.name == "authorization" }
            do throws(Refusal) {
                guard credentials.count < 2 else {
                    throw .invalid("The header authorization is given twice; give it once.")
                }
                guard try identify(exchange, credentials.first?.value, http) else { return }
            } catch {
                return finish(exchange, error)
            }
        }
        if exchange.isHalfClosed { halfClosed(exchange, now: now) }
    }

    private func ask(_ credential: Credential, _ connection: Connection, exchange: UInt32) -> UInt64 {
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

    private func answered(
        _ exchange: Exchange, _ http: HTTPFace, _ result: Result<Principal, Refusal>, _ claim: LoginClaim, now: Instant
    ) {
        exchange.ticket = nil
        let authorization = exchange.authorization
        exchange.authorization = nil
        switch result {
        case .success(let principal):
            count(.accepted)
            do throws(Refusal) {
                try admit(exchange, as: principal)
            } catch {
                return finish(exchange, error)
            }
            if let authorization { http.login = (authorization, principal) }
            if let expires = principal.expires { http.noteExpiry(expires) }
            guard !exchange.isFinished else { return }
            guard let plain = exchange.plain else { return admit(exchange, http, now: now) }
            admit(exchange, plain, http, now: now)
        case .failure(let refusal):
            refused(exchange.connection, refusal, claim)
            finish(exchange, refusal)
        }
    }

    /// Goes on with a call of gRPC as far as it has come.
    private func admit(_ exchange: Exchange, _ http: HTTPFace, now: Instant) {
        var early = ByteBuffer()
        swap(&early, &exchange.backlog)
        http.count(exchange)
        if !early.isEmpty { takeCall(early.readable, for: exchange, http, now: now) }
        if exchange.isHalfClosed { halfClosed(exchange, now: now) }
    }

    /// Bytes of a call that waits to be let in are kept for then.
    func keep(_ bytes: UnsafeRawBufferPointer, of exchange: Exchange, _ http: HTTPFace, now: Instant) {
        guard !exchange.isFinished else { return }
        exchange.backlog.append(bytes)
        do throws(GRPCError) {
            try checkHeld(exchange, http)
        } catch {
            refuse(exchange, error, now: now)
        }
    }
}

extension GRPCMethod {
    var isReflection: Bool { self == .reflection || self == .reflectionAlpha }
    var isHealth: Bool { self == .healthCheck || self == .healthWatch || self == .healthList }
}
