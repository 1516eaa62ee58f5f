// ConnectionUsers: who asks on a connection, where that user is counted, and what becomes of it when permissions
// change. Over HTTP each request can have a user of its own. (What expires, ConnectionTicks ends.)

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

    /// Who asks on a stream that is being opened.
    func principal(of connection: Connection, _ stream: UInt32) -> Principal {
        if let http = connection.http { return http.exchange(of: stream)?.principal ?? .nobody }
        return connection.principal ?? .nobody
    }

    /// Counts a connection for the user that it turned out to be. Over HTTP, where each request can have another one,
    /// it counts for that of the latest request, and for each who has one under way.
    func enroll(_ connection: Connection, _ principal: Principal) throws(Refusal) {
        let former = connection.meter
        if let former, former.account.user == principal.user { return }
        let meter = rateLimiter.meter(of: principal.user)
        let http = connection.http
        let isCounted = http?.users.speaks(for: meter.account) == true
        guard isCounted || meter.account.connections.take(limit: limits.connectionsPerUser) else {
            throw refusal(
                at: .connectionsPerUser,
                "\(meter.account.title) has \(counted(limits.connectionsPerUser, "connection")), the most allowed; "
                    + "close some.")
        }
        connection.login.meter = meter
        if let former, http?.users.speaks(for: former.account) != true { former.account.connections.give() }
    }

    /// Counts a connection no more, for anybody.
    func disenroll(_ connection: Connection) {
        let latest = connection.meter
        latest?.account.connections.give()
        connection.login.meter = nil
        connection.http?.users.endAll { account in
            if account !== latest?.account { account.connections.give() }
        }
    }

    /// Who publishes on a stream of a connection.
    func meter(_ connection: Connection, _ stream: UInt32) -> Meter? {
        guard let http = connection.http else { return connection.meter }
        return http.exchange(of: stream)?.meter
    }

    // Permissions

    /// Finds out anew who a connection's peer is.
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
