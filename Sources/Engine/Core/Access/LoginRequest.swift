// LoginRequest: credentials for the driver to verify, because that may take a long time, and the possible outcomes.

import Bytes

/// Identifies what waits for the result of a login. A stale ticket is harmless.
public struct LoginTicket: Sendable, Hashable {
    var connection: ConnectionID
    /// The exchange over HTTP; unused for RSocket.
    var exchange: UInt32
    /// Unique, never reused.
    public var number: UInt64
    /// The user that the peer claims to be.
    public var claim = LoginClaim.none
}

/// The user that a peer claims to be, for the log. A name that no user has may be a password typed into the wrong
/// field, so it is not kept.
public enum LoginClaim: Sendable, Hashable {
    case user(String)
    /// A name that no user has.
    case unknown
    /// Tokens carry no name.
    case none

    init(_ credential: Credential, _ access: AccessTable) {
        switch credential {
        case .password(let name, _): self = access.user(name).map { .user($0.name) } ?? .unknown
        case .token: self = .none
        }
    }
}

/// The result of a login, as it is counted.
public enum LoginResult: Sendable {
    case accepted, refused
    /// Not verified, because too many logins failed.
    case slowed
    /// The peer needs credentials but sent none.
    case missing
    /// The peer is authenticated, but it may not do what it requests.
    case denied
}

/// Credentials to verify. The driver must always answer with `Shard.authenticated`.
public struct LoginRequest: Sendable {
    public var ticket: LoginTicket
    public var credential: Credential
    /// The peer's address without its port. Failed logins are throttled by address.
    public var address: String
}

/// The outcome of a login.
public enum LoginOutcome: Sendable {
    case accepted(Principal)
    /// Deliberately unspecific, so that clients cannot find out which users exist.
    case wrong
    /// The token's signature is valid, but the token has expired or is not valid yet.
    case expired(user: String?)
    case notYetValid
    /// Too many logins from this address failed. The next ones are verified after `seconds`.
    case slowed(seconds: Int)
    /// Too many logins are waiting to be verified.
    case busy
}

extension LoginOutcome {
    /// The user whose login it was, if known; otherwise the claimed one.
    public func claim(or claim: LoginClaim) -> LoginClaim {
        if case .expired(let user?) = self { return .user(user) }
        return claim
    }

    /// How the outcome is counted.
    public var counted: LoginResult {
        switch self {
        case .accepted: .accepted
        case .slowed: .slowed
        case .wrong, .expired, .notYetValid, .busy: .refused
        }
    }

    var result: Result<Principal, Refusal> {
        switch self {
        case .accepted(let principal): .success(principal)
        case .wrong:
            .failure(
                Refusal(.unauthenticated, "The credentials are wrong; check the name and password, or the token."))
        case .expired: .failure(LoginOutcome.expiredRefusal)
        case .notYetValid: .failure(Refusal(.unauthenticated, "The token is not valid yet; try again later."))
        case .slowed(let seconds):
            .failure(
                Refusal(
                    .limit, "Too many logins failed from this address; try again in \(seconds) s.", retryAfter: seconds)
            )
        case .busy:
            .failure(Refusal(.unavailable, "The broker is busy with other logins; try again in a few seconds."))
        }
    }

    static var expiredRefusal: Refusal { Refusal(.unauthenticated, "The token has expired; get a new one.") }
    static var neededRefusal: Refusal {
        Refusal(.unauthenticated, "This broker requires credentials; send a user name and password, or a token.")
    }
}
