// AdminLogin: checks who may use the admin listener. A request needs permission to control its topic, which everyone
// has unless users or anonymous permissions are configured. Users are identified as over plain HTTP, by a certificate
// or by credentials, which the login threads check.

import Core
import HTTP2

struct AdminLogin {
    /// How a request continues.
    enum Verdict {
        /// The request is allowed; `user` is nil for anonymous clients.
        case goOn(user: String?)
        /// Wait for a login thread's result with this number.
        case wait(UInt64)
        case refuse(Refusal)
    }

    struct Refusal: Error {
        let problem: Problem
        /// The result to count, if any.
        let result: LoginResult?
        var claim = LoginClaim.none
    }

    var access: AccessTable
    private let service: LoginService?
    /// The number of this thread for the login service.
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
                let problem = Problem(.unauthenticated, "Authenticate with Basic or Bearer authorization.")
                // A certificate also identifies a user.
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
            let problem = Problem(.busy, "Too many logins are waiting; try again later.")
            return .refuse(Refusal(problem: problem, result: nil))
        }
        return .wait(number)
    }

    /// Continues after the credentials have been checked.
    func check(_ outcome: LoginOutcome, _ claim: LoginClaim, for call: AdminCall) -> Verdict {
        let admitted: Principal
        do throws(Problem) {
            admitted = try outcome.admitted()
        } catch {
            return .refuse(Refusal(problem: error, result: outcome.counted, claim: outcome.claim(or: claim)))
        }
        // There may have been a reload in the meantime.
        guard let principal = access.current(admitted) else {
            let problem = Problem(.unauthenticated, "The user was removed from this broker.")
            return .refuse(Refusal(problem: problem, result: .refused, claim: claim))
        }
        return call.permitted.map { check(principal, $0) } ?? .goOn(user: principal.user)
    }

    private func check(_ principal: Principal, _ needed: String) -> Verdict {
        guard !principal.permissions.allow(.control, needed) else { return .goOn(user: principal.user) }
        // An anonymous client may be permitted after it authenticates.
        let isMissing = principal.user == nil && !access.isOpen
        let problem = Problem(
            isMissing ? .unauthenticated : .forbidden,
            "\(principal.title) may not control \(needed), which this requires.")
        return .refuse(Refusal(problem: problem, result: isMissing ? .missing : .denied))
    }
}
