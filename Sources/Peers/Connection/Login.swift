// Login: the user of a connection, and what that user is known to be allowed.

struct Login {
    /// A SETUP that waits until its credentials have been checked.
    struct Pending {
        var ticket: UInt64
        /// The token from SETUP, if the connection should be resumable.
        var resumeToken: [UInt8]?
    }

    private enum State {
        /// No SETUP has been accepted. Over HTTP: every request needs credentials.
        case none
        case pending(Pending)
        /// SETUP has been accepted. Over HTTP: the user of requests without credentials.
        case accepted(Principal)
        /// The user is no longer admitted.
        case expelled
    }

    private var state = State.none
    /// The meter of the user, which also counts this connection; over HTTP, that of the latest request's user.
    var rateLimit: UserRateLimit?
    /// Topics that the user may publish single messages to. Over HTTP, where each request is checked, those of recent
    /// requests.
    var allowedTargets = AllowedTargets()

    var principal: Principal? {
        switch state {
        case .none, .pending: nil
        case .accepted(let principal): principal
        case .expelled: .nobody
        }
    }
    var isPending: Bool { if case .pending = state { true } else { false } }
    var isExpelled: Bool { if case .expelled = state { true } else { false } }

    mutating func wait(for answer: Pending) {
        assert(principal == nil && !isPending, "a connection has one SETUP")
        state = .pending(answer)
    }

    /// Removes and returns the login whose credentials, those of `ticket`, have been checked; nil if none waits for
    /// that ticket.
    mutating func takePending(_ ticket: UInt64) -> Pending? {
        guard case .pending(let pending) = state, pending.ticket == ticket else { return nil }
        state = .none
        return pending
    }

    mutating func accept(_ principal: Principal) {
        assert(self.principal == nil && !isPending, "a connection has one SETUP")
        state = .accepted(principal)
    }

    /// Over HTTP: sets the user of requests without credentials; nil if all requests need credentials.
    mutating func assume(_ principal: Principal?) {
        assert(!isPending && !isExpelled)
        state = principal.map { .accepted($0) } ?? .none
    }

    /// Sets the user's current principal after permissions were reloaded; nil if the user is no longer admitted.
    mutating func renew(_ principal: Principal?) {
        assert(self.principal != nil)
        state = principal.map { .accepted($0) } ?? .expelled
    }
}
