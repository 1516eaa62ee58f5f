// LoginRequest: credentials that the driver is to look at, as that may take long, and what may come of it.

import Bytes

/// Names what waits for an answer. A stale one is harmless.
public struct LoginTicket: Sendable, Hashable {
    var connection: ConnectionID
    /// Of the exchange over HTTP; not used for RSocket.
    var exchange: UInt32
    /// Never given out twice.
    public var number: UInt64
    /// Whose login it is said to be.
    public var claim = LoginClaim.none
}

/// Whose login something is said to be, for the log: a name that no user has may be a password, typed into the wrong
/// field, and is not kept.
public enum LoginClaim: Sendable, Hashable {
    case user(String)
    /// A name that no user has.
    case unknown
    /// There is no name with a token.
    case none

    init(_ credential: Credential, _ access: AccessTable) {
        switch credential {
        case .password(let name, _): self = access.user(name).map { .user($0.name) } ?? .unknown
        case .token: self = .none
        }
    }
}

/// What came of what somebody said of who it is, as it is counted.
public enum LoginResult: Sendable {
    case accepted, refused
    /// Not looked at, as too many had failed.
    case slowed
    /// Nothing was said, where that is not enough.
    case missing
    /// It is known who it is, and that it may not do what it asks for.
    case denied
}

/// Credentials to be looked at; to be answered by `Shard.authenticated`, whatever comes of it.
public struct LoginRequest: Sendable {
    public var ticket: LoginTicket
    public var credential: Credential
    /// The peer's address without its port: those who guess are slowed down by it.
    public var address: String
}

/// What became of credentials.
public enum LoginOutcome: Sendable {
    case accepted(Principal)
    /// No more is told than that, so that nobody learns which users there are.
    case wrong
    /// A token with a good signature is no longer valid, or not yet.
    case expired(user: String?)
    case notYetValid
    /// Too many failed from this address: seconds after which the next are looked at.
    case slowed(seconds: Int)
    /// Too many wait to be looked at.
    case busy
}

extension LoginOutcome {
    /// Whose login it was, where that was found out; else as it was said to be.
    public func claim(or claim: LoginClaim) -> LoginClaim {
        if case .expired(let user?) = self { return .user(user) }
        return claim
    }

    /// Of one that nobody was let in by.
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
                Refusal(.unauthenticated, "The credentials are not right; check the name and password, or the token."))
        case .expired: .failure(LoginOutcome.expiredRefusal)
        case .notYetValid: .failure(Refusal(.unauthenticated, "The token is not valid yet; use it later."))
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
        Refusal(.unauthenticated, "This broker needs credentials; send a user's name and password, or a token.")
    }
}
