// AccessOptions: users, permissions and the keys of tokens, as the configuration has them.
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

/// As it was given. No hash, token or key of it is told.
public struct AccessOptions: Equatable, Sendable {
    public var users: [UserSettings] = []
    /// None or one.
    public var anonymous: [PermissionSettings] = []
    /// None or one.
    public var jwt: [JWTOptions] = []
    /// Without users, too, clients of other machines are served.
    public var allowsAnonymous = false

    public init() {}
}

/// Whose JWTs count.
public struct JWTOptions: Equatable, Sendable {
    public struct Key: Equatable, Sendable {
        public var id: String
        public var algorithm: JWTAlgorithm
        /// A public key as PEM, or for HS256 a secret.
        public var file: String
    }

    public var keys: [Key] = []
    public var audience: String?
    public var issuer: String?
}

extension AccessOptions {
    /// Everything checked, the files of keys read.
    /// - Parameter path: the configuration file, beside which files lie that are named by a relative path.
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
            throw AccessError(place, "\(shown(name)) is empty, or has more than \(longestKey >> 10) KiB")
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
                        throw ValueFault("is none of \(known)")
                    }, file: try fields.needed("file", plain))
            } ?? []
        return jwt
    }

    /// Any text. What is wrong with it is told later, without the text: it may be a secret.
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
