// Principal: what is known of a peer's identity, and what the peer may do.

/// A user, or an anonymous peer. Immutable: when permissions change, peers get a new principal.
public final class Principal: Sendable {
    /// How the peer authenticated. It is compared with the configuration after a reload, and never exposed.
    public enum Proof: Sendable, Equatable {
        /// The peer did not authenticate.
        case none
        /// With the password that has this hash.
        case password(String)
        /// With the token that has this SHA-256 digest.
        case token([UInt8])
        /// With a client certificate of this name in the configuration.
        case certificate(String)
        /// With a JWT signed by the key with this fingerprint. `bringsPermissions`: the permissions come from the JWT
        /// instead of a configured user.
        case signature(key: String, bringsPermissions: Bool)
    }

    /// Nil if anonymous.
    public let user: String?
    public let permissions: Permissions
    public let proof: Proof
    /// When the peer's credentials expire, in nanoseconds since 1970; nil if they do not.
    public let expires: Int64?

    public init(user: String?, permissions: Permissions, proof: Proof, expires: Int64? = nil) {
        self.user = user
        self.permissions = permissions
        self.proof = proof
        self.expires = expires
    }

    /// A principal without any permissions.
    static let nobody = Principal(user: nil, permissions: .none, proof: .none)

    /// The broker's operator, who sees everything.
    static let `operator` = Principal(user: nil, permissions: .all, proof: .none)

    /// For example "User 'alice'", to begin a sentence.
    public var title: String { user.map { "User '\($0)'" } ?? "Anonymous clients" }
}

/// Credentials. They are secret: the description hides them, and they are never written anywhere.
public enum Credential: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    case password(user: String, [UInt8])
    /// A token from the configuration, or a JWT.
    case token([UInt8])

    public var description: String { "(secret)" }
    public var debugDescription: String { description }
    public var customMirror: Swift.Mirror { Swift.Mirror(self, children: []) }
}
