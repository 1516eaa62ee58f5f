// AccessSettings: users, permissions and keys as an administrator writes them down, and what can be wrong with them.

import Core

/// The settings of who may do what. Names of keys in the configuration are those of the fields.
public struct AccessSettings: Sendable, Equatable {
    public var users: [UserSettings] = []
    /// What peers without credentials may do. Nil: nothing if there are users or keys, and everything if not.
    public var anonymous: PermissionSettings?
    public var jwt = JWTSettings()

    public init() {}

    /// Nobody has to say who it is.
    public var isOpen: Bool { users.isEmpty && jwt.keys.isEmpty }

    /// Users that one configuration may have.
    public static let mostUsers = 10_000
}

/// Patterns of topics, by permission.
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

    /// - Parameter place: what the patterns are of, for an error's sentence.
    func permissions(of place: String) throws(AccessError) -> Permissions {
        Permissions(
            publish: try PermissionSettings.set(publish, "\(place)publish"),
            subscribe: try PermissionSettings.set(subscribe, "\(place)subscribe"),
            control: try PermissionSettings.set(control, "\(place)control"),
            block: try PermissionSettings.set(block, "\(place)block"))
    }

    /// Patterns that one permission may have.
    public static let mostPatterns = 1_000

    private static func set(_ texts: [String], _ place: String) throws(AccessError) -> TopicSet {
        guard texts.count <= mostPatterns else {
            throw AccessError(place, "it has \(texts.count) patterns; at most \(mostPatterns) are allowed")
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

/// A user, with at least one way to show who it is – or none, if JWTs name it.
public struct UserSettings: Sendable, Equatable {
    public var name: String
    /// A hash as crypt(3) makes it: yescrypt, bcrypt, sha512 and their like. `forebayd --hash-password` makes one.
    public var password: String?
    /// The SHA-256 of a token, `sha256:` and 64 hexadecimal digits.
    public var token: String?
    /// The common name in the subject of a client certificate, or all of that.
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

/// Whose JWTs count.
public struct JWTSettings: Sendable, Equatable {
    public var keys: [JWTKeySettings] = []
    /// A JWT's `aud` must be or hold this. Nil: a JWT for an audience is refused.
    public var audience: String?
    /// A JWT's `iss` must be this, if it is given.
    public var issuer: String?

    public init() {}
}

/// A key of JWTs. Each has one algorithm, whatever a JWT says.
public struct JWTKeySettings: Sendable, Equatable {
    /// A JWT that names another key by `kid` is not looked at with this one.
    public var id: String
    public var algorithm: JWTAlgorithm
    /// What was read from its file: a public key as PEM, or for HS256 the secret.
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

/// What is wrong with the settings. It tells no secret.
public struct AccessError: Error, Equatable, CustomStringConvertible, Sendable {
    /// Where, such as `users[2].password`.
    public var place: String
    /// What, and what to write instead; the words behind a colon.
    public var fault: String

    public init(_ place: String, _ fault: String) {
        self.place = place
        self.fault = fault
    }

    public var description: String { "\(place): \(fault)" }
}

extension AccessSettings {
    /// Everything checked, as a table. The keys come in the order of their settings.
    fileprivate func compiled() throws(AccessError) -> (table: AccessTable, keys: [JWTKey]) {
        guard users.count <= AccessSettings.mostUsers else {
            throw AccessError("users", "there are \(users.count); at most \(AccessSettings.mostUsers) are allowed")
        }
        var table: [AccessTable.User] = []
        var seen: [String: String] = [:]
        for (index, user) in users.enumerated() {
            let place = "users[\(index)]"
            let compiled = try user.compiled("\(place).")
            guard !jwt.keys.isEmpty || user.password ?? user.token ?? user.certificate != nil else {
                throw AccessError(
                    place,
                    "'\(user.name)' has no password, token or certificate, and no jwt key is there; give it one")
            }
            for (key, value) in user.unique(compiled) {
                guard let other = seen.updateValue(user.name, forKey: "\(key) \(value)") else { continue }
                throw AccessError(
                    "\(place).\(key)",
                    key == "name"
                        ? "another user is '\(user.name)' already; give each its own name, or write both as one"
                        : "'\(user.name)' and '\(other)' have the same \(key); give each its own")
            }
            table.append(compiled)
        }
        var keys: [JWTKey] = []
        for (index, key) in jwt.keys.enumerated() {
            guard !keys.contains(where: { $0.id == key.id }) else {
                throw AccessError("jwt.keys[\(index)].id", "another key has the same; give each its own")
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

    /// - Throws: what is wrong with it by itself; the place is the name of a key.
    public func check() throws(AccessError) { _ = try compiled("") }

    fileprivate func compiled(_ place: String) throws(AccessError) -> AccessTable.User {
        guard UserSettings.isName(name) else {
            throw AccessError(
                "\(place)name",
                "a name has 1 to \(UserSettings.longestName) bytes, and no colon or control character among them")
        }
        if let password, let fault = PasswordHash.fault(of: password) { throw AccessError("\(place)password", fault) }
        var digest: [UInt8]?
        if let token {
            digest = Digest.parse(token)
            guard digest != nil else {
                throw AccessError(
                    "\(place)token",
                    "it is no hash of a token; write sha256: and the 64 hexadecimal digits that "
                        + "`printf %s TOKEN | sha256sum` prints")
            }
        }
        if let certificate, certificate.isEmpty {
            throw AccessError("\(place)certificate", "it is empty; write the common name in the certificate's subject")
        }
        return AccessTable.User(
            name: name, password: password, token: digest, certificate: certificate,
            permissions: try permissions.permissions(of: place))
    }

    /// What no two users may have in common.
    fileprivate func unique(_ user: AccessTable.User) -> [(key: String, value: String)] {
        [("name", name)] + (user.token.map { [("token", Digest.hex($0))] } ?? [])
            + (certificate.map { [("certificate", $0)] } ?? [])
    }

    /// Whether that can be a user's name. RFC 7617 leaves out the colon.
    static func isName(_ name: String) -> Bool {
        (1...longestName).contains(name.utf8.count)
            && name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F && $0 != ":" }
    }
}

/// Settings that were checked, and what was made of them.
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

    /// Everybody may do everything.
    public static let open = AccessRules()
}
