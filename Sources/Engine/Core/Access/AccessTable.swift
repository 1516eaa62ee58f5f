// AccessTable: all users and their permissions as one immutable snapshot. A reload makes a new one and hands it to
// every shard, which then looks its peers up in it again.

/// Who may do what in this broker.
public final class AccessTable: Sendable {
    /// A configured user. It can show who it is in any of the ways that are given.
    public struct User: Sendable {
        /// 1 to 128 bytes, without colon and control characters.
        public var name: String
        /// The hash of its password, as crypt(3) writes them.
        public var password: String?
        /// SHA-256 of its token.
        public var token: [UInt8]?
        /// Whose client certificate is its own: the common name in its subject, or all of it, "CN=reader,O=Example".
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
    /// Who brings no credentials; nil if such peers are turned away.
    public let anonymous: Principal?
    /// There are neither users nor keys: whatever credentials a peer brings, there is nothing to compare them with.
    public let isOpen: Bool

    /// - Parameters:
    ///   - users: no two of one name, token or certificate; of such only the last counts.
    ///   - anonymous: what peers without credentials may do; nil turns them away.
    ///   - keys: fingerprints of the keys whose signatures on JWTs count.
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

    /// Who shows no credentials; nil if such peers are turned away.
    /// - Parameter certificate: that of the peer's TLS, verified.
    public func unasked(_ certificate: PeerCertificate?) -> Principal? {
        certificate.flatMap { principal($0) } ?? anonymous
    }

    /// Whose certificate that is. A name with "=" is nobody's: it could be made to read as somebody's whole subject.
    func principal(_ certificate: PeerCertificate) -> Principal? {
        if let principal = certificates[certificate.subject] { return principal }
        guard let name = certificate.user, !name.utf8.contains(UInt8(ascii: "=")) else { return nil }
        return certificates[name]
    }

    /// Who one that was let in earlier is by this table; nil if it would not be let in again.
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
