// Login: who is on a connection, and what that user is known to be allowed.

struct Login {
    /// A SETUP that waits until its credentials have been checked.
    struct Pending {
        var ticket: UInt64
        /// What it named, if the connection is to be resumable.
        var resumeToken: [UInt8]?
    }

    private enum State {
        /// No SETUP has been accepted. Over HTTP: every request needs credentials.
        case none
        case pending(Pending)
        /// SETUP has been accepted. Over HTTP: who makes requests without credentials.
        case accepted(Principal)
        /// Its user is not let in any more.
        case expelled
    }

    private var state = State.none
    /// Where its user is counted, and this connection with it; over HTTP the user of the latest request.
    var meter: Meter?
    /// Topics that it may publish single messages to. Over HTTP, where each request is checked, those of the last ones.
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

    /// The credentials of that ticket have been checked. Returns what waited for it; nil if nothing did.
    mutating func takePending(_ ticket: UInt64) -> Pending? {
        guard case .pending(let pending) = state, pending.ticket == ticket else { return nil }
        state = .none
        return pending
    }

    mutating func accept(_ principal: Principal) {
        assert(self.principal == nil && !isPending, "a connection has one SETUP")
        state = .accepted(principal)
    }

    /// Over HTTP: who makes requests without credentials; nil where all need some.
    mutating func assume(_ principal: Principal?) {
        assert(!isPending && !isExpelled)
        state = principal.map { .accepted($0) } ?? .none
    }

    /// Permissions were loaded again: its user as it is now; nil if it is not let in any more.
    mutating func renew(_ principal: Principal?) {
        assert(self.principal != nil)
        state = principal.map { .accepted($0) } ?? .expelled
    }
}
