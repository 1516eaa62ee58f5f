// users, anonymous and jwt in the configuration file: what is read, what is refused, and that no secret is revealed in
// either case.

import Access
import Configuration
import Core
import Testing

@testable import Server

@Suite struct AccessOptionsTests {
    private static let hash = "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7"
    private static let digest = "sha256:" + String(repeating: "ab", count: 32)

    private func load(_ text: String) throws(UsageError) -> Loaded {
        try Loader.load(
            ConfigurationText(path: "/etc/b.yaml", bytes: Array(text.utf8)), environment: [], settings: []
        ) { _ throws(ValueFault) in }
    }

    private func fault(_ text: String) -> String {
        do throws(UsageError) {
            _ = try load(text)
            return "none"
        } catch {
            return error.faults.first ?? ""
        }
    }

    @Test func everythingIsRead() throws {
        let loaded = try load(
            """
            users:
              - name: alice
                password: \(AccessOptionsTests.hash)
                publish: [a.>, b]
                block: c
              - {name: bob, token: "\(AccessOptionsTests.digest)", certificate: "CN=bob", control: ["$SYS.>"]}
            anonymous: {subscribe: [public.*]}
            jwt:
              audience: us
              issuer: them
              keys: [{id: main, algorithm: EdDSA, file: login.pem}]
            """)
        let access = loaded.options.access
        #expect(
            access.users == [
                UserSettings(
                    name: "alice", password: AccessOptionsTests.hash,
                    permissions: PermissionSettings(publish: ["a.>", "b"], block: ["c"])),
                UserSettings(
                    name: "bob", token: AccessOptionsTests.digest, certificate: "CN=bob",
                    permissions: PermissionSettings(control: ["$SYS.>"])),
            ])
        #expect(access.anonymous == [PermissionSettings(subscribe: ["public.*"])])
        #expect(access.jwt.first?.keys.first?.algorithm == .edDSA && access.jwt.first?.audience == "us")
        let printed = loaded.printed()
        #expect(!printed.contains("$y$") && !printed.contains("sha256") && printed.contains("public.*"))
        // The output is itself a valid file.
        #expect(try load(printed).options.access.users.map(\.name) == ["alice", "bob"])
    }

    @Test(arguments: [
        ("users: [{password: x}]", "name is missing"),
        ("users: [{name: a, password: secret}]", "users.password: not a yescrypt"),
        ("users: [{name: a, token: secret}]", "users.token: not a hash of a token"),
        ("users: [{name: \"a:b\"}]", "users.name: a name must have"),
        ("users: [{name: a, publish: [a..b]}]", "users.publish: a..b is not a topic pattern"),
        ("users: [{name: a, pasword: secret}]", "users.pasword is not a known key; did you mean password?"),
        ("anonymous: [{}, {}]", "anonymous: the list has 2 elements"),
        ("jwt: {keys: [{id: a, algorithm: none, file: f}]}", "none is not one of HS256, RS256, ES256, EdDSA"),
        ("jwt: {keys: [{id: a, algorithm: HS256}]}", "file is missing"),
    ]) func whatIsWrongIsToldWithoutSecrets(_ text: String, _ words: String) {
        let fault = fault(text)
        #expect(fault.contains(words) && !fault.contains("secret"), "\(fault)")
    }

    /// A fault found once everything has been read, with its line.
    private func lateFault(_ text: String) throws -> String {
        let loaded = try load(text)
        let machine = MachineLimits(openFiles: 1_000_000, cpus: 2, memory: 1 << 30)
        do throws(UsageError) {
            _ = try Server.Configuration(loaded, path: "/nowhere/b.yaml", machine: machine)
            return "none"
        } catch {
            return error.description
        }
    }

    @Test func usersThatAreTheSameAreToldWithTheirLine() throws {
        let token = "token: \"\(AccessOptionsTests.digest)\""
        #expect(
            try lateFault("users:\n- {name: a, \(token)}\n- {name: a, certificate: b}")
                == "/etc/b.yaml:3: users.name: there is another user 'a'; use unique names, "
                + "or merge the two")
        #expect(
            try lateFault("users:\n- {name: a, \(token)}\n- name: b\n  \(token)")
                == "/etc/b.yaml:3: users.token: 'b' and 'a' have the same token; it must be unique")
    }

    @Test func aUserWithoutCredentialsIsRefusedUnlessTokensNameIt() throws {
        #expect(
            try lateFault("retain: 5\nusers:\n- name: a\n  publish: [x]")
                == "/etc/b.yaml:3: users: 'a' has no password, token or certificate, and there are no jwt keys; "
                + "give it one")
        #expect(throws: Never.self) {
            var settings = AccessSettings()
            settings.users = [UserSettings(name: "a")]
            settings.jwt.keys = [JWTKeySettings(id: "k", algorithm: .hs256, material: Array(repeating: 1, count: 32))]
            _ = try AccessRules(settings)
        }
    }

    @Test func aKeyThatIsNotThereIsToldWithItsLine() throws {
        #expect(
            try lateFault("jwt:\n  keys:\n  - {id: a, algorithm: HS256, file: nowhere.pem}").hasPrefix(
                "/etc/b.yaml:3: jwt.keys.file: /nowhere/nowhere.pem cannot be read: No such file"))
        #expect(
            try lateFault("jwt:\n  keys:\n  - {id: a, algorithm: EdDSA, file: /dev/null}").hasPrefix(
                "/etc/b.yaml:3: jwt.keys.file: /dev/null is empty"))
    }

    /// A file of `count` users, each with every setting that a user can have, and a few patterns.
    private func file(users count: Int) -> String {
        var text = "users:\n"
        for number in 0..<count {
            let digits = String(number)
            text += """
                  - name: user\(number)
                    password: \(AccessOptionsTests.hash)
                    token: sha256:\(String(repeating: "0", count: 64 - digits.count))\(digits)
                    certificate: CN=user\(number),OU=clients,O=Example
                    publish: [sensors.\(number).>, alerts.\(number)]
                    subscribe: [commands.\(number).>, public.>]
                    control: [sensors.\(number).>]
                    block: [sensors.\(number).work]

                """
        }
        return text
    }

    @Test func asManyUsersAsThereMayBeGoIntoAFile() throws {
        let most = AccessSettings.mostUsers
        let text = file(users: most)
        let access = try load(text).options.access
        #expect(access.users.count == most && access.users.last?.name == "user\(most - 1)")
        #expect(try access.rules(beside: nil).table.userNames.count == most)
        let more = text + file(users: 1).split(separator: "\n").dropFirst().joined(separator: "\n")
        #expect(fault(more).hasSuffix("the list has \(most + 1) elements; write at most \(most)"))
    }
}
