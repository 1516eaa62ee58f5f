// ConnectionUsers: the users of a connection, where they are counted, and what happens to the connection when
// permissions change. Over HTTP each request can have a different user. (ConnectionTicks ends what has expired.)

import Bytes

final class ConnectionUsers: ShardPart {
    let timers: Timers
    let rateLimiter: RateLimiter
    let authorization: Authorization

    init(_ context: ShardContext, _ timers: Timers, _ rateLimiter: RateLimiter, _ authorization: Authorization) {
        self.timers = timers
        self.rateLimiter = rateLimiter
        self.authorization = authorization
        super.init(context)
    }

    /// The user of a stream that is being opened.
    func principal(of connection: Connection, _ stream: UInt32) -> Principal {
        if let http = connection.http { return http.exchange(of: stream)?.principal ?? .nobody }
        return connection.principal ?? .nobody
    }

    /// Counts a connection for its user. Over HTTP, where each request can have another user, it counts for the user of
    /// the latest request and for each user with a request in progress.
    func enroll(_ connection: Connection, _ principal: Principal) throws(Refusal) {
        let former = connection.rateLimit
        if let former, former.account.user == principal.user { return }
        let rateLimit = rateLimiter.rateLimit(of: principal.user)
        let http = connection.http
        let isCounted = http?.users.speaks(for: rateLimit.account) == true
        guard isCounted || rateLimit.account.connections.take(limit: limits.connectionsPerUser) else {
            throw refusal(
                at: .connectionsPerUser,
                "\(rateLimit.account.titleHas) \(counted(limits.connectionsPerUser, "connection")), the maximum; "
                    + "close some.")
        }
        connection.login.rateLimit = rateLimit
        if let former, http?.users.speaks(for: former.account) != true { former.account.connections.give() }
    }

    /// Stops counting a connection, for all users.
    func disenroll(_ connection: Connection) {
        let latest = connection.rateLimit
        latest?.account.connections.give()
        connection.login.rateLimit = nil
        connection.http?.users.endAll { account in
            if account !== latest?.account { account.connections.give() }
        }
    }

    /// The meter of a publisher on a stream of a connection.
    func rateLimit(_ connection: Connection, _ stream: UInt32) -> UserRateLimit? {
        guard let http = connection.http else { return connection.rateLimit }
        return http.exchange(of: stream)?.rateLimit
    }

    // Permissions

    /// Looks up a connection's user again.
    func reload(_ connection: Connection, _ review: inout Review?) {
        connection.login.allowedTargets = AllowedTargets()
        timers.touch(connection)
        if let http = connection.http {
            reload(http, of: connection)
        } else if let principal = connection.principal {
            let current = authorization.access.current(principal)
            if current == nil, !connection.isExpelled { review?.connections += 1 }
            connection.login.renew(current)
        }
    }

    private func reload(_ http: HTTPConnection, of connection: Connection) {
        connection.login.assume(authorization.unasked(connection.certificate))
        http.users.login = nil
        for exchange in http.exchanges.all {
            if let principal = exchange.principal {
                exchange.principal = authorization.access.current(principal) ?? .nobody
            }
        }
    }
}
