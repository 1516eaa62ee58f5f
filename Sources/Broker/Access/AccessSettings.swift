// AccessSettings: users, permissions and keys as configured by an administrator, and their validation.

import Core

/// The access settings. The configuration's keys have the same names as the fields.
public struct AccessSettings: Sendable, Equatable {
    public var users: [UserSettings] = []
    /// What clients without credentials may do. If nil: nothing when there are users or keys, otherwise everything.
    public var anonymous: PermissionSettings?
    public var jwt = JWTSettings()

    public init() {}

    /// Whether clients need no credentials.
    public var isOpen: Bool { users.isEmpty && jwt.keys.isEmpty }

    /// Maximum number of users in a configuration.
    public static let mostUsers = 10_000
}

/// Topic patterns for each permission.
public struct PermissionSettings: Sendable, Equatable {
    public var publish: [String] = []
    public var subscribe: [String] = []
    public var control: [String] = []
    public var block: [String] = []

    public init(publish: [String] = [], subscribe: [String] = [], control: [String] = [], block: [String] = []) {
        self.publish = publish
        self.subscribe = subscribe
        self.control = control
        self.block = block
    }

    /// - Parameter place: prefix of the key's name in error messages.
    func permissions(of place: String) throws(AccessError) -> Permissions {
        Permissions(
            publish: try PermissionSettings.set(publish, "\(place)publish"),
            subscribe: try PermissionSettings.set(subscribe, "\(place)subscribe"),
            control: try PermissionSettings.set(control, "\(place)control"),
            block: try PermissionSettings.set(block, "\(place)block"))
    }

    /// Maximum number of patterns for one permission.
    public static let mostPatterns = 1_000

    private static func set(_ texts: [String], _ place: String) throws(AccessError) -> TopicSet {
        guard texts.count <= mostPatterns else {
            throw AccessError(place, "\(texts.count) patterns; at most \(mostPatterns) are allowed")
        }
        var patterns: [TopicPattern] = []
        for text in texts {
            do throws(TopicPatternError) {
                patterns.append(try TopicPattern(parsing: text))
            } catch {
                throw AccessError(place, error.description)
            }
        }
        return TopicSet(patterns)
    }
}

/// A user with at least one kind of credential, or with none if JWTs identify it.
public struct UserSettings: Sendable, Equatable {
    public var name: String
    /// A hash in the format of crypt(3): yescrypt, bcrypt, sha512 and similar. `forebayd --hash-password` creates one.
    public var password: String?
    /// The SHA-256 of a token: `sha256:` and 64 hexadecimal digits.
    public var token: String?
    /// The common name in the subject of a client certificate, or the whole subject.
    public var certificate: String?
    public var permissions: PermissionSettings

    public init(
        name: String, password: String? = nil, token: String? = nil, certificate: String? = nil,
        permissions: PermissionSettings = PermissionSettings()
    ) {
        self.name = name
        self.password = password
        self.token = token
        self.certificate = certificate
        self.permissions = permissions
    }
}

/// Which JWTs are accepted.
public struct JWTSettings: Sendable, Equatable {
    public var keys: [JWTKeySettings] = []
    /// A JWT's `aud` must be or contain this. If nil, JWTs with an audience are rejected.
    public var audience: String?
    /// If set, a JWT's `iss` must equal this.
    public var issuer: String?

    public init() {}
}

/// A key for verifying JWTs. Each key has one algorithm, regardless of a JWT's header.
public struct JWTKeySettings: Sendable, Equatable {
    /// A JWT whose `kid` names another key is not verified with this one.
    public var id: String
    public var algorithm: JWTAlgorithm
    /// The content of the key's file: a public key in PEM format, or the secret for HS256.
    public var material: [UInt8]

    public init(id: String, algorithm: JWTAlgorithm, material: [UInt8]) {
        self.id = id
        self.algorithm = algorithm
        self.material = material
    }
}

public enum JWTAlgorithm: String, Sendable, CaseIterable {
    case hs256 = "HS256"
    case rs256 = "RS256"
    case es256 = "ES256"
    case edDSA = "EdDSA"
}

/// An error in the settings. It contains no secrets.
public struct AccessError: Error, Equatable, CustomStringConvertible, Sendable {
    /// The key, such as `users[2].password`.
    public var place: String
    /// The error and how to fix it; follows a colon.
    public var fault: String

    public init(_ place: String, _ fault: String) {
        self.place = place
        self.fault = fault
    }

    public var description: String { "\(place): \(fault)" }
}

extension AccessSettings {
    /// Validates everything and returns it as a table. The keys are in the order of their settings.
    fileprivate func compiled() throws(AccessError) -> (table: AccessTable, keys: [JWTKey]) {
        guard users.count <= AccessSettings.mostUsers else {
            throw AccessError("users", "\(users.count) users; at most \(AccessSettings.mostUsers) are allowed")
        }
        var table: [AccessTable.User] = []
        var seen: [String: String] = [:]
        for (index, user) in users.enumerated() {
            let place = "users[\(index)]"
            let compiled = try user.compiled("\(place).")
            guard !jwt.keys.isEmpty || user.password ?? user.token ?? user.certificate != nil else {
                throw AccessError(
                    place,
                    "'\(user.name)' has no password, token or certificate, and there are no jwt keys; give it one")
            }
            for (key, value) in user.unique(compiled) {
                guard let other = seen.updateValue(user.name, forKey: "\(key) \(value)") else { continue }
                throw AccessError(
                    "\(place).\(key)",
                    key == "name"
                        ? "there is another user '\(user.name)'; use unique names, or merge the two"
                        : "'\(user.name)' and '\(other)' have the same \(key); it must be unique")
            }
            table.append(compiled)
        }
        var keys: [JWTKey] = []
        for (index, key) in jwt.keys.enumerated() {
            guard !keys.contains(where: { $0.id == key.id }) else {
                throw AccessError("jwt.keys[\(index)].id", "another key has the same id; ids must be unique")
            }
            keys.append(try JWTKey(key, place: "jwt.keys[\(index)]"))
        }
        let anonymous = try anonymous.map { settings throws(AccessError) in try settings.permissions(of: "anonymous.") }
        let access = AccessTable(
            users: table, anonymous: anonymous ?? (isOpen ? .all : nil), keys: keys.map(\.fingerprint))
        return (access, keys)
    }
}

extension UserSettings {
    public static let longestName = 128

    /// - Throws: an error in this user's own settings; `place` is the name of a key.
    public func check() throws(AccessError) { _ = try compiled("") }

    fileprivate func compiled(_ place: String) throws(AccessError) -> AccessTable.User {
        guard UserSettings.isName(name) else {
            throw AccessError(
                "\(place)name",
                "a name must have 1 to \(UserSettings.longestName) bytes and no colon or control character")
        }
        if let password, let fault = PasswordHash.fault(of: password) { throw AccessError("\(place)password", fault) }
        var digest: [UInt8]?
        if let token {
            digest = Digest.parse(token)
            guard digest != nil else {
                throw AccessError(
                    "\(place)token",
                    "not a hash of a token; write sha256: followed by the 64 hexadecimal digits that "
                        + "`printf %s TOKEN | sha256sum` prints")
            }
        }
        if let certificate, certificate.isEmpty {
            throw AccessError("\(place)certificate", "empty; write the common name of the certificate's subject")
        }
        return AccessTable.User(
            name: name, password: password, token: digest, certificate: certificate,
            permissions: try permissions.permissions(of: place))
    }

    /// The values that must be unique among users.
    fileprivate func unique(_ user: AccessTable.User) -> [(key: String, value: String)] {
        [("name", name)] + (user.token.map { [("token", Digest.hex($0))] } ?? [])
            + (certificate.map { [("certificate", $0)] } ?? [])
    }

    /// Whether this is a valid user name. RFC 7617 excludes colons.
    static func isName(_ name: String) -> Bool {
        (1...longestName).contains(name.utf8.count)
            && name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F && $0 != ":" }
    }
}

/// Validated settings and what they compile to.
public struct AccessRules: Sendable {
    public let settings: AccessSettings
    public let table: AccessTable
    let keys: [JWTKey]

    public init(_ settings: AccessSettings) throws(AccessError) {
        (table, keys) = try settings.compiled()
        self.settings = settings
    }

    private init() {
        settings = AccessSettings()
        table = .open
        keys = []
    }

    /// Everyone may do everything.
    public static let open = AccessRules()
}
