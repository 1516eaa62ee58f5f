// AdminLogin: who may ask the admin listener for what: those with the permission to control it, which everybody has
// unless users, or what clients without credentials may do, are configured. Who asks is shown as over plain HTTP, by
// a certificate or by credentials, which are looked at on the threads that look at all others.

import Core
import HTTP2

struct AdminLogin {
    /// What a request is to do next.
    enum Verdict {
        /// It is allowed, to a user or to who does not say who it is.
        case goOn(user: String?)
        /// The answer of a thread that looks at its credentials, under this number.
        case wait(UInt64)
        case refuse(Problem)
    }

    var access: AccessTable
    private let service: LoginService?
    /// What the service takes this thread for.
    private let place: Int
    private var number: UInt64 = 0

    init(_ context: LoopContext) {
        access = context.access
        service = context.logins
        place = context.inboxes.count
    }

    mutating func check(_ call: AdminCall, of client: AdminClient, now: UInt64) -> Verdict {
        guard let needed = call.permitted else { return .goOn(user: nil) }
        do throws(Problem) {
            guard let authorization = client.authorization, !access.isOpen else {
                guard let principal = access.unasked(client.certificate) else {
                    throw Problem(.unauthenticated, "Say who asks, by Basic or Bearer authorization.")
                }
                try check(principal, needed)
                return .goOn(user: principal.user)
            }
            number += 1
            let request = try LoginRequest(number: number, authorization: authorization, peer: client.peer)
            guard let service, service.submit(request, from: place, now: now) else {
                throw Problem(.busy, "Too many wait for their credentials to be looked at; try again later.")
            }
            return .wait(number)
        } catch {
            return .refuse(error)
        }
    }

    /// The credentials were looked at.
    func check(_ outcome: LoginOutcome, for call: AdminCall) -> Verdict {
        do throws(Problem) {
            // There may have been a reload since.
            guard let principal = access.current(try outcome.admitted()) else {
                throw Problem(.unauthenticated, "The user is no longer known here.")
            }
            if let needed = call.permitted { try check(principal, needed) }
            return .goOn(user: principal.user)
        } catch {
            return .refuse(error)
        }
    }

    private func check(_ principal: Principal, _ needed: String) throws(Problem) {
        guard !principal.permissions.allow(.control, needed) else { return }
        throw Problem(
            principal.user == nil && !access.isOpen ? .unauthenticated : .forbidden,
            "\(principal.title) may not control \(needed), which this takes.")
    }
}
