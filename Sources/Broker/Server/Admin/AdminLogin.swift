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
        case refuse(Refusal)
    }

    struct Refusal: Error {
        let problem: Problem
        /// What it is counted as.
        let result: LoginResult?
        var claim = LoginClaim.none
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
        guard let authorization = client.authorization, !access.isOpen else {
            guard let principal = access.unasked(client.certificate) else {
                let problem = Problem(.unauthenticated, "Say who asks, by Basic or Bearer authorization.")
                // A certificate says who it is, too.
                let isNobodys = client.certificate != nil
                return .refuse(
                    Refusal(
                        problem: problem, result: isNobodys ? .refused : .missing,
                        claim: isNobodys ? .unknown : .none))
            }
            return check(principal, needed)
        }
        number += 1
        let request: LoginRequest
        do throws(Problem) {
            request = try LoginRequest(number: number, authorization: authorization, peer: client.peer, access: access)
        } catch {
            return .refuse(Refusal(problem: error, result: .refused))
        }
        guard let service, service.submit(request, from: place, now: now) else {
            let problem = Problem(.busy, "Too many wait for their credentials to be looked at; try again later.")
            return .refuse(Refusal(problem: problem, result: nil))
        }
        return .wait(number)
    }

    /// The credentials were looked at.
    func check(_ outcome: LoginOutcome, _ claim: LoginClaim, for call: AdminCall) -> Verdict {
        let admitted: Principal
        do throws(Problem) {
            admitted = try outcome.admitted()
        } catch {
            return .refuse(Refusal(problem: error, result: outcome.counted, claim: outcome.claim(or: claim)))
        }
        // There may have been a reload since.
        guard let principal = access.current(admitted) else {
            let problem = Problem(.unauthenticated, "The user was removed from this broker.")
            return .refuse(Refusal(problem: problem, result: .refused, claim: claim))
        }
        return call.permitted.map { check(principal, $0) } ?? .goOn(user: principal.user)
    }

    private func check(_ principal: Principal, _ needed: String) -> Verdict {
        guard !principal.permissions.allow(.control, needed) else { return .goOn(user: principal.user) }
        // Who has not said who it is may be allowed it once it does.
        let isMissing = principal.user == nil && !access.isOpen
        let problem = Problem(
            isMissing ? .unauthenticated : .forbidden,
            "\(principal.title) may not control \(needed), which this takes.")
        return .refuse(Refusal(problem: problem, result: isMissing ? .missing : .denied))
    }
}
