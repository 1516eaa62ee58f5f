// Principal: who a peer is, as far as that is known, and what it may do.

/// A user, or one who did not say who it is. Immutable: when permissions change, peers get another one.
public final class Principal: Sendable {
    /// How it showed who it is. What it showed is compared with what counts after a reload, and is told to nobody.
    public enum Proof: Sendable, Equatable {
        /// It did not.
        case none
        /// By the password of which this is the hash.
        case password(String)
        /// By the token of which this is the SHA-256.
        case token([UInt8])
        /// By a client certificate that the configuration names so.
        case certificate(String)
        /// By a JWT, signed with the key of this fingerprint. `bringsPermissions`: they are the JWT's, not those of a
        /// configured user.
        case signature(key: String, bringsPermissions: Bool)
    }

    /// Nil: it is anonymous.
    public let user: String?
    public let permissions: Permissions
    public let proof: Proof
    /// When what it showed is no longer valid, in nanoseconds since 1970; nil if it has no such time.
    public let expires: Int64?

    public init(user: String?, permissions: Permissions, proof: Proof, expires: Int64? = nil) {
        self.user = user
        self.permissions = permissions
        self.proof = proof
        self.expires = expires
    }

    /// One that may do nothing.
    static let nobody = Principal(user: nil, permissions: .none, proof: .none)

    /// Whoever runs the broker: it sees all.
    static let `operator` = Principal(user: nil, permissions: .all, proof: .none)

    /// "User 'alice'", for a sentence.
    public var title: String { user.map { "User '\($0)'" } ?? "Without credentials one" }
}

/// What tells who a peer is. It is a secret: it has no description, and is not written anywhere.
public enum Credential: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    case password(user: String, [UInt8])
    /// A token of the configuration, or a JWT.
    case token([UInt8])

    public var description: String { "(secret)" }
    public var debugDescription: String { description }
    public var customMirror: Swift.Mirror { Swift.Mirror(self, children: []) }
}
