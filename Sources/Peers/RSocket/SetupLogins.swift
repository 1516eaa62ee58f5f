// Logins over RSocket: once per connection, at SETUP.

import RSocket

extension RSocketRequests {
    /// Admits a connection with its SETUP's credentials, now or once the driver has checked them.
    func logIn(_ connection: Connection, _ setup: Setup, now: Instant) {
        do throws(Refusal) {
            try resumption.checkToken(setup.resumeToken)
            let token = setup.resumeToken.map { Array($0) }
            if !authorization.access.isOpen, let credential = try Credential(setup) {
                let ticket = logins.ask(credential, connection, exchange: .max)
                return connection.login.wait(for: Login.Pending(ticket: ticket, resumeToken: token))
            }
            guard let principal = authorization.unasked(connection.certificate) else {
                return logins.turnAway(connection, logins.missing(connection), now: now)
            }
            try logins.welcome(connection, principal, resumeToken: token)
        } catch {
            // Reaching a limit is not a failed login.
            if error.word == .unauthenticated { logins.refused(connection, error, .none) }
            logins.turnAway(connection, error, now: now)
        }
    }
}
