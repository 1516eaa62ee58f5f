// Logins over HTTP: each request has its own credentials, and waits until they have been checked.

import Bytes
import HTTP2

final class HTTPLogins: ShardPart {
    let authorization: Authorization
    let users: ConnectionUsers
    let httpResponses: HTTPResponses
    let logins: Logins
    // Above
    unowned(unsafe) var httpCalls: HTTPCalls!
    unowned(unsafe) var plainRequests: PlainRequests!

    init(
        _ context: ShardContext, _ authorization: Authorization, _ users: ConnectionUsers,
        _ httpResponses: HTTPResponses, _ logins: Logins
    ) {
        self.authorization = authorization
        self.users = users
        self.httpResponses = httpResponses
        self.logins = logins
        super.init(context)
    }

    /// Identifies the user of a request. Returns false if the request waits for a login, after which `admit` continues
    /// it.
    func identify(_ exchange: Exchange, _ authorization: String?, _ http: HTTPConnection) throws(Refusal) -> Bool {
        guard let authorization, !self.authorization.access.isOpen else {
            guard let principal = exchange.connection.principal else { throw logins.missing(exchange.connection) }
            try admit(exchange, as: principal)
            return true
        }
        do throws(Refusal) {
            return try lookUp(exchange, authorization, http)
        } catch {
            if error.word == .unauthenticated {
                let login = http.users.login.flatMap {
                    isSameSecret($0.authorization, authorization) ? $0.principal : nil
                }
                logins.refused(exchange.connection, error, login?.user.map { .user($0) } ?? .none)
            }
            throw error
        }
    }

    private func lookUp(_ exchange: Exchange, _ authorization: String, _ http: HTTPConnection) throws(Refusal) -> Bool {
        let connection = exchange.connection
        // Most clients send the same credentials with every request of a connection.
        if let login = http.users.login, isSameSecret(login.authorization, authorization) {
            try admit(exchange, as: login.principal)
            if let expires = login.principal.expires {
                guard moment.wall < expires else { throw LoginOutcome.expiredRefusal }
                http.users.expiry.note(expires)
            }
            return true
        }
        let credential = try Credential(authorization: authorization)
        let ticket = logins.ask(credential, connection, exchange: exchange.handle.index)
        exchange.request.wait(on: .login(ticket: ticket, authorization: authorization))
        return false
    }

    private func admit(_ exchange: Exchange, as principal: Principal) throws(Refusal) {
        try users.enroll(exchange.connection, principal)
        exchange.principal = principal
        exchange.rateLimit = exchange.connection.rateLimit
        exchange.connection.http?.users.begin(exchange)
    }

    /// Begins a call once its user is known, or at once if the call needs none.
    func begin(
        _ call: GRPCCall, _ exchange: Exchange, _ http: HTTPConnection, _ fields: [(name: String, value: String)],
        now: Instant
    ) {
        if !call.method.isHealth, !call.method.isReflection {
            let credentials = fields.filter { $0.name == "authorization" }
            do throws(Refusal) {
                guard credentials.count < 2 else {
                    throw .invalid("The header authorization was sent twice; send it once.")
                }
                guard try identify(exchange, credentials.first?.value, http) else { return }
            } catch {
                return httpResponses.finish(exchange, error)
            }
        }
        if exchange.request.isHalfClosed { httpCalls.halfClosed(exchange, now: now) }
    }

    // The result

    func answered(
        _ exchange: Exchange, _ http: HTTPConnection, _ result: Result<Principal, Refusal>, _ claim: LoginClaim,
        now: Instant
    ) {
        let authorization = exchange.request.endLogin()
        switch result {
        case .success(let principal):
            counters.count(.accepted)
            do throws(Refusal) {
                try admit(exchange, as: principal)
            } catch {
                return httpResponses.finish(exchange, error)
            }
            if let authorization { http.users.login = (authorization, principal) }
            if let expires = principal.expires { http.users.expiry.note(expires) }
            guard !exchange.isFinished else { return }
            guard let plain = exchange.plain else { return admit(exchange, http, now: now) }
            plainRequests.admit(exchange, plain, http, now: now)
        case .failure(let refusal):
            logins.refused(exchange.connection, refusal, claim)
            httpResponses.finish(exchange, refusal)
        }
    }

    /// Continues a gRPC call with what has arrived of it.
    private func admit(_ exchange: Exchange, _ http: HTTPConnection, now: Instant) {
        let early = exchange.request.takeBacklog()
        http.count(exchange)
        if !early.isEmpty { httpCalls.takeCall(early.readable, for: exchange, http, now: now) }
        if exchange.request.isHalfClosed { httpCalls.halfClosed(exchange, now: now) }
    }
}

extension GRPCMethod {
    var isReflection: Bool { self == .reflection || self == .reflectionAlpha }
    var isHealth: Bool { self == .healthCheck || self == .healthWatch || self == .healthList }
}
