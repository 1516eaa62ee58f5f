// AccessOptions: users, permissions and JWT keys in the configuration.
//
//     users:                       anonymous:                  jwt:
//       - name: alice                subscribe: [public.>]       audience: forebay
//         password: $y$j9T$…                                     issuer: https://login.example.org
//         publish: [orders.>]                                    keys:
//         subscribe: [">"]                                         - {id: main, algorithm: EdDSA, file: main.pem}

import Access
import Configuration
import Core
import EventLoop

/// The access settings as they were written. Hashes, tokens and keys are never shown.
public struct AccessOptions: Equatable, Sendable {
    public var users: [UserSettings] = []
    /// At most one.
    public var anonymous: [PermissionSettings] = []
    /// At most one.
    public var jwt: [JWTOptions] = []
    /// Whether remote clients are served even if there are no users.
    public var allowsAnonymous = false

    public init() {}
}

/// Which JWTs are accepted.
public struct JWTOptions: Equatable, Sendable {
    public struct Key: Equatable, Sendable {
        public var id: String
        public var algorithm: JWTAlgorithm
        /// A public key in PEM format, or a secret for HS256.
        public var file: String
    }

    public var keys: [Key] = []
    public var audience: String?
    public var issuer: String?
}

extension AccessOptions {
    /// Validates everything, and reads the key files.
    /// - Parameter path: the configuration file. Relative paths are relative to its folder.
    func rules(beside path: String?) throws(AccessError) -> AccessRules {
        var settings = AccessSettings()
        settings.users = users
        settings.anonymous = anonymous.first
        if let jwt = jwt.first {
            settings.jwt.audience = jwt.audience
            settings.jwt.issuer = jwt.issuer
            for (index, key) in jwt.keys.enumerated() {
                let material = try AccessOptions.read(key.file, path, "jwt.keys[\(index)].file")
                settings.jwt.keys.append(JWTKeySettings(id: key.id, algorithm: key.algorithm, material: material))
            }
        }
        return try AccessRules(settings)
    }

    private static let longestKey = 64 << 10

    private static func read(_ file: String, _ path: String?, _ place: String) throws(AccessError) -> [UInt8] {
        let name = path.map { Loader.beside($0, file) } ?? file
        do throws(ValueFault) {
            try ConfigurationFile.check(name)
        } catch {
            throw AccessError(place, "\(shown(name)) \(error.words)")
        }
        guard let bytes = Machine.bytes(ofFile: name, limit: longestKey), !bytes.isEmpty else {
            throw AccessError(place, "\(shown(name)) is empty or larger than \(longestKey >> 10) KiB")
        }
        return bytes
    }
}

extension Setting {
    static let access: [Setting] = [
        .records(
            "users", \.access.users, most: AccessSettings.mostUsers,
            "names, passwords, tokens and certificates of users, with their permissions",
            read: readUser, write: writeUser
        ).reloadable,
        .records(
            "anonymous", \.access.anonymous, most: 1,
            "permissions of clients without credentials", read: readPermissions,
            write: writePermissions
        ).reloadable,
        .records(
            "jwt", \.access.jwt, most: 1, "keys, audience and issuer of accepted JSON web tokens",
            read: readJWT, write: writeJWT
        ).reloadable,
        .truth(
            "allow-anonymous", \.access.allowsAnonymous, "serve remote clients even though no users are configured"),
    ]

    private static func readUser(_ fields: inout Fields) throws(Fault) -> UserSettings {
        let user = UserSettings(
            name: try fields.needed("name", plain), password: try fields.value("password", plain),
            token: try fields.value("token", plain), certificate: try fields.value("certificate", plain),
            permissions: try readPermissions(&fields))
        do throws(AccessError) {
            try user.check()
        } catch {
            throw fields.fault(error.place, error.fault)
        }
        return user
    }

    private static func readPermissions(_ fields: inout Fields) throws(Fault) -> PermissionSettings {
        let most = PermissionSettings.mostPatterns
        return PermissionSettings(
            publish: try fields.values("publish", most: most, pattern) ?? [],
            subscribe: try fields.values("subscribe", most: most, pattern) ?? [],
            control: try fields.values("control", most: most, pattern) ?? [],
            block: try fields.values("block", most: most, pattern) ?? [])
    }

    private static func readJWT(_ fields: inout Fields) throws(Fault) -> JWTOptions {
        var jwt = JWTOptions()
        jwt.audience = try fields.value("audience", plain)
        jwt.issuer = try fields.value("issuer", plain)
        jwt.keys =
            try fields.records("keys", most: 100) { fields throws(Fault) in
                JWTOptions.Key(
                    id: try fields.needed("id", plain),
                    algorithm: try fields.needed("algorithm") { text throws(ValueFault) in
                        if let algorithm = JWTAlgorithm(rawValue: text) { return algorithm }
                        let known = JWTAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")
                        throw ValueFault("is not one of \(known)")
                    }, file: try fields.needed("file", plain))
            } ?? []
        return jwt
    }

    /// Accepts any text. Errors are reported later without the text, which may be a secret.
    private static func plain(_ text: String) throws(ValueFault) -> String { text }

    private static func pattern(_ text: String) throws(ValueFault) -> String {
        do throws(TopicPatternError) {
            return try TopicPattern(parsing: text).description
        } catch {
            throw ValueFault(error.words)
        }
    }

    private static func writeUser(_ user: UserSettings) -> [String] {
        var lines = ["name: \(quoted(user.name))"]
        if user.password != nil { lines.append("# password: (not shown)") }
        if user.token != nil { lines.append("# token: (not shown)") }
        if let certificate = user.certificate { lines.append("certificate: \(quoted(certificate))") }
        return lines + writePermissions(user.permissions)
    }

    private static func writePermissions(_ permissions: PermissionSettings) -> [String] {
        [
            ("publish", permissions.publish), ("subscribe", permissions.subscribe), ("control", permissions.control),
            ("block", permissions.block),
        ].map { "\($0): [\($1.map(quoted).joined(separator: ", "))]" }
    }

    private static func writeJWT(_ jwt: JWTOptions) -> [String] {
        var lines: [String] = []
        if let audience = jwt.audience { lines.append("audience: \(quoted(audience))") }
        if let issuer = jwt.issuer { lines.append("issuer: \(quoted(issuer))") }
        let keys = jwt.keys.map {
            "  - {id: \(quoted($0.id)), algorithm: \($0.algorithm.rawValue), file: \(quoted($0.file))}"
        }
        return lines + (keys.isEmpty ? ["keys: []"] : ["keys:"] + keys)
    }
}
