// AccessTable: all users and their permissions as one immutable snapshot. A reload creates a new table and hands it to
// every shard, which then looks up its peers again.

/// The users of this broker and their permissions.
public final class AccessTable: Sendable {
    /// A configured user. It can authenticate with any of the given credentials.
    public struct User: Sendable {
        /// 1 to 128 bytes, without colons or control characters.
        public var name: String
        /// The password's hash, in crypt(3) format.
        public var password: String?
        /// SHA-256 of the user's token.
        public var token: [UInt8]?
        /// Identifies the user's client certificate: the subject's common name, or the whole subject,
        /// "CN=reader,O=Example".
        public var certificate: String?
        public var permissions: Permissions

        public init(
            name: String, password: String? = nil, token: [UInt8]? = nil, certificate: String? = nil,
            permissions: Permissions
        ) {
            self.name = name
            self.password = password
            self.token = token
            self.certificate = certificate
            self.permissions = permissions
        }
    }

    private let users: [String: User]
    private let certificates: [String: Principal]
    private let keys: Set<String>
    /// The principal of peers without credentials; nil if they are refused.
    public let anonymous: Principal?
    /// Whether neither users nor keys are configured, which leaves nothing to compare a peer's credentials with.
    public let isOpen: Bool

    /// - Parameters:
    ///   - users: names, tokens and certificates must be unique; of duplicates only the last one counts.
    ///   - anonymous: permissions of peers without credentials; nil refuses these peers.
    ///   - keys: fingerprints of the keys that may sign JWTs.
    public init(users: [User], anonymous: Permissions?, keys: [String] = []) {
        self.users = Dictionary(users.map { ($0.name, $0) }) { $1 }
        certificates = Dictionary(
            users.compactMap { user in
                user.certificate.map {
                    ($0, Principal(user: user.name, permissions: user.permissions, proof: .certificate($0)))
                }
            }
        ) { $1 }
        self.keys = Set(keys)
        self.anonymous = anonymous.map { Principal(user: nil, permissions: $0, proof: .none) }
        isOpen = users.isEmpty && keys.isEmpty
    }

    /// Everybody may do everything.
    public static let open = AccessTable(users: [], anonymous: .all)

    /// Names of users, sorted.
    public var userNames: [String] { users.keys.sorted() }

    /// The configured user of that name.
    public func user(_ name: String) -> User? { users[name] }

    /// The principal of a peer that sends no credentials; nil if it is refused.
    /// - Parameter certificate: the peer's verified TLS certificate.
    public func unasked(_ certificate: PeerCertificate?) -> Principal? {
        certificate.flatMap { principal($0) } ?? anonymous
    }

    /// The owner of a certificate. A common name with "=" matches nobody: it could be crafted to look like a whole
    /// subject.
    func principal(_ certificate: PeerCertificate) -> Principal? {
        if let principal = certificates[certificate.subject] { return principal }
        guard let name = certificate.user, !name.utf8.contains(UInt8(ascii: "=")) else { return nil }
        return certificates[name]
    }

    /// The current principal for a peer that was authenticated earlier; nil if it would now be refused.
    public func current(_ principal: Principal) -> Principal? {
        guard let name = principal.user else { return anonymous }
        let user = users[name]
        let stillCounts =
            switch principal.proof {
            case .none: false
            case .password(let hash): user?.password == hash
            case .token(let digest): user?.token == digest
            case .certificate(let subject): user?.certificate == subject
            case .signature(let key, let bringsPermissions): keys.contains(key) && (bringsPermissions || user != nil)
            }
        guard stillCounts else { return nil }
        if case .signature(_, bringsPermissions: true) = principal.proof { return principal }
        guard let user else { return nil }
        return Principal(
            user: name, permissions: user.permissions, proof: principal.proof, expires: principal.expires)
    }
}
