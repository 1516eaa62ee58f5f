// Logins over RSocket: once, at SETUP.

import RSocket

extension RSocketRequests {
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
}
