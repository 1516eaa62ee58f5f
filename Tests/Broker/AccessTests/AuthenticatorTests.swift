// Authentication, throttling of failures with a simulated clock, and refused settings.

import Core
import Testing

@testable import Access

@Suite struct AuthenticatorTests {
    static func settings(_ password: [UInt8] = Array("secret".utf8)) throws -> AccessSettings {
        var settings = AccessSettings()
        let hash = try #require(PasswordHash.make(of: password))
        let token = "sha256:" + Digest.hex(Digest.sha256(Array("token".utf8)))
        settings.users = [
            UserSettings(
                name: "alice", password: hash, permissions: PermissionSettings(publish: ["orders.>"])),
            UserSettings(name: "bob", token: token), UserSettings(name: "carol"),
        ]
        settings.jwt.keys = [JWTKeySettings(id: "main", algorithm: .hs256, material: JWTTests.secret)]
        return settings
    }

    static func password(_ user: String, _ password: String) -> Credential {
        .password(user: user, Array(password.utf8))
    }

    /// The user who logged in, or the reason for the refusal.
    static func reported(_ outcome: LoginOutcome) -> String {
        switch outcome {
        case .accepted(let principal): principal.user ?? "anonymous"
        case .wrong: "wrong"
        case .expired: "expired"
        case .notYetValid: "not yet"
        case .slowed(let seconds): "slowed \(seconds)"
        case .busy: "busy"
        }
    }

    private static func at(_ seconds: Double) -> Instant {
        Instant(monotonic: 1_000_000_000 + UInt64(seconds * 1e9), wall: wall(1000) + Int64(seconds * 1e9))
    }

    @Test func eachWayIn() throws {
        var authenticator = Authenticator(
            try AccessRules(try AuthenticatorTests.settings()), secret: [1, 2, 3])
        let claims = #"{"sub":"carol","exp":2000}"#
        let dave = #"{"sub":"dave","exp":2000,"forebay":{"subscribe":["a"]}}"#
        for (index, (credential, expected)) in [
            (AuthenticatorTests.password("alice", "secret"), "alice"),
            (AuthenticatorTests.password("alice", "secret"), "alice"),
            (AuthenticatorTests.password("alice", "secre"), "wrong"),
            (AuthenticatorTests.password("alice", ""), "wrong"),
            (.password(user: "alice", Array("secret".utf8) + [0]), "wrong"),
            (AuthenticatorTests.password("bob", "token"), "wrong"),
            (AuthenticatorTests.password("eve", "secret"), "wrong"),
            (.token(Array("token".utf8)), "bob"), (.token(Array("toke".utf8)), "wrong"),
            (.token(JWTTests.token(claims)), "carol"), (.token(JWTTests.token(dave)), "dave"),
            (.token(JWTTests.token(#"{"sub":"eve","exp":2000}"#)), "wrong"),
            (.token(JWTTests.token(#"{"sub":"carol","exp":999}"#)), "expired"),
            (.token(JWTTests.token(#"{"sub":"carol","exp":2000,"nbf":1500}"#)), "not yet"),
        ].enumerated() {
            let outcome = authenticator.authenticate(credential, from: "10.0.0.\(index)", now: AuthenticatorTests.at(0))
            #expect(AuthenticatorTests.reported(outcome) == expected, "case \(index)")
        }
    }

    @Test func permissionsComeFromTheTokenOrTheUser() throws {
        var authenticator = Authenticator(try AccessRules(try AuthenticatorTests.settings()), secret: [1])
        for (claims, publishes, expires) in [
            (#"{"sub":"alice","exp":2000}"#, true, wall(2000)),
            (#"{"sub":"alice","exp":2000,"forebay":{}}"#, false, wall(2000)),
            (#"{"sub":"dave","exp":3000,"forebay":{"publish":["orders.*"]}}"#, true, wall(3000)),
        ] {
            let outcome = authenticator.authenticate(
                .token(JWTTests.token(claims)), from: "a", now: AuthenticatorTests.at(0))
            guard case .accepted(let principal) = outcome else {
                Issue.record("refused")
                continue
            }
            #expect(principal.permissions.allow(.publish, "orders.eu") == publishes && principal.expires == expires)
        }
    }

    /// Login attempts with one authenticator and a simulated clock.
    private struct Attempts: ~Copyable {
        var authenticator: Authenticator

        init() throws {
            authenticator = Authenticator(try AccessRules(try AuthenticatorTests.settings()), secret: [1])
        }

        mutating func callAsFunction(_ credential: Credential, _ address: String, _ seconds: Double) -> String {
            AuthenticatorTests.reported(
                authenticator.authenticate(credential, from: address, now: AuthenticatorTests.at(seconds)))
        }
    }

    @Test func failuresAreSlowedByAddressAndUser() throws {
        var attempt = try Attempts()
        let bad = AuthenticatorTests.password("alice", "guess")
        for _ in 0..<LoginThrottle.free { #expect(attempt(bad, "a", 0) == "wrong") }
        #expect(attempt.authenticator.newlySlowed == nil)
        #expect(attempt(bad, "a", 0) == "wrong")
        #expect(attempt.authenticator.newlySlowed == Slowed(address: "a", user: "alice"))
        #expect(attempt(bad, "a", 0.4) == "slowed 1")
        #expect(attempt.authenticator.newlySlowed == nil)
        // A correct guess in the meantime gets the same answer.
        let good = AuthenticatorTests.password("alice", "secret")
        #expect(attempt(good, "a", 0.4) == "slowed 1")
        #expect(attempt(good, "b", 0.4) == "alice")
        #expect(attempt(bad, "a", 0.5) == "wrong")
        #expect(attempt(bad, "a", 1.4) == "slowed 1")
        #expect(attempt(bad, "a", 1.5) == "wrong")
        #expect(attempt(bad, "a", 1.6) == "slowed 2")
        // Other users at that address are not slowed when one user repeats a wrong password.
        #expect(attempt(AuthenticatorTests.password("carol", "x"), "a", 1.6) == "wrong")
        #expect(attempt(.token(Array("token".utf8)), "a", 1.6) == "bob")
    }

    @Test func aNameThatNobodyHasIsNotTold() throws {
        var attempt = try Attempts()
        let bad = AuthenticatorTests.password("pass", "x")
        for _ in 0...LoginThrottle.free { #expect(attempt(bad, "a", 0) == "wrong") }
        #expect(attempt.authenticator.newlySlowed == Slowed(address: "a", user: nil))
    }

    @Test func anAccountOfOnesOwnIsOfNoUseForGuessing() throws {
        var attempt = try Attempts()
        let own = Credential.token(Array("token".utf8))
        // Guesses at one user's password, with successful logins in between.
        for _ in 0...LoginThrottle.free {
            #expect(attempt(AuthenticatorTests.password("alice", "guess"), "a", 0) == "wrong")
            #expect(attempt(own, "a", 0) == "bob")
        }
        #expect(attempt(AuthenticatorTests.password("alice", "guess"), "a", 0.1) == "slowed 1")
        // The same password, tried for every user.
        for number in 0...LoginThrottle.freeOfAddress {
            #expect(attempt(AuthenticatorTests.password("user\(number)", "guess"), "b", 0) == "wrong")
            if number < LoginThrottle.freeOfAddress { #expect(attempt(own, "b", 0) == "bob") }
        }
        #expect(attempt.authenticator.newlySlowed?.address == "b")
        #expect(attempt(AuthenticatorTests.password("another", "guess"), "b", 0.1) == "slowed 1")
        #expect(attempt(own, "b", 0.1) == "slowed 1")
        // Every token counts as a new guess, too.
        for number in 0...LoginThrottle.freeOfAddress { #expect(attempt(.token([UInt8(number)]), "c", 0) == "wrong") }
        #expect(attempt(.token([200]), "c", 0.1) == "slowed 1")
    }

    @Test func whoGetsItRightInTheEndHasNoDebts() throws {
        var attempt = try Attempts()
        let (bad, good) = (AuthenticatorTests.password("alice", "x"), AuthenticatorTests.password("alice", "secret"))
        for round in 0..<10 {
            let now = Double(400 * round)
            for _ in 0..<4 { #expect(attempt(bad, "a", now) == "wrong") }
            // Five minutes later, when the cache of valid credentials has expired.
            #expect(attempt(good, "a", now + 301) == "alice")
        }
    }

    @Test func onlyATokenThatWasSignedHereIsToldThatItsTimeIsWrong() throws {
        let late = #"{"sub":"carol","exp":999}"#
        var forged = JWTTests.token(late)
        forged[forged.count - 8] ^= 1
        var cases: [(Credential, String)] = [
            (.token(JWTTests.token(late)), "expired"),
            (.token(JWTTests.token(#"{"sub":"carol","exp":2000,"nbf":1500}"#)), "not yet"),
            // Tokens in which something other than the time is wrong, too.
            (.token(forged), "wrong"),
            (.token(JWTTests.token(#"{"sub":"carol","exp":999,"aud":"others"}"#)), "wrong"),
            (.token(JWTTests.token(#"{"sub":"","exp":999}"#)), "wrong"),
            (.token(JWTTests.token(#"{"exp":999}"#)), "wrong"), (.token(JWTTests.token(#"{"sub":"carol"}"#)), "wrong"),
            (.token(JWTTests.token(#"{"sub":"eve","exp":2000}"#)), "wrong"),
            (.token(Array("toke".utf8)), "wrong"), (AuthenticatorTests.password("alice", "x"), "wrong"),
            (AuthenticatorTests.password("eve", "x"), "wrong"), (AuthenticatorTests.password("bob", "x"), "wrong"),
        ]
        cases.append((.token(JWTTests.token(late, secret: Array("0123456789abcdef0123456789abcdeX".utf8))), "wrong"))
        for (index, (credential, expected)) in cases.enumerated() {
            var attempt = try Attempts()
            #expect(attempt(credential, "a", 0) == expected, "case \(index)")
        }
    }

    @Test func whoIsKnownIsNotSlowed() throws {
        var authenticator = Authenticator(try AccessRules(try AuthenticatorTests.settings()), secret: [1])
        let good = AuthenticatorTests.password("alice", "secret")
        func attempt(_ credential: Credential, _ seconds: Double) -> String {
            AuthenticatorTests.reported(
                authenticator.authenticate(credential, from: "a", now: AuthenticatorTests.at(seconds)))
        }
        #expect(attempt(good, 0) == "alice")
        for _ in 0...LoginThrottle.free {
            #expect(attempt(AuthenticatorTests.password("alice", "guess"), 0) == "wrong")
        }
        #expect(attempt(good, 0.1) == "alice")
        #expect(attempt(AuthenticatorTests.password("alice", "guess"), 0.1) == "slowed 1")
        // What is known about addresses survives a reload; cached passwords do not.
        authenticator.adopt(try AccessRules(try AuthenticatorTests.settings(Array("other".utf8))))
        #expect(attempt(good, 0.1) == "slowed 1")
        #expect(attempt(good, 1) == "wrong")
    }
}

@Suite struct LoginThrottleTests {
    @Test func delaysDoubleUpToALimit() {
        var throttle = LoginThrottle()
        var delays: [UInt64] = []
        for _ in 0..<20 {
            _ = throttle.failed("a", "u", now: 0)
            delays.append(throttle.delay("a", "u", now: 0) / 500_000_000)
        }
        #expect(delays == [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64, 64, 64, 64, 64])
        // A user's failures at one address affect neither others there nor the user elsewhere.
        #expect(throttle.delay("a", "v", now: 0) == 0 && throttle.delay("b", "u", now: 0) == 0)
        #expect(throttle.delay("a", "u", now: LoginThrottle.memory) == 0 && throttle.count == 0)
    }

    @Test func anAddressIsSlowedByManyUsers() {
        var throttle = LoginThrottle()
        var slowed: [Bool] = []
        for number in 0..<22 { slowed.append(throttle.failed("a", "u\(number)", now: 0)) }
        #expect(slowed.firstIndex(of: true) == 20 && slowed.count { $0 } == 1)
        #expect(throttle.delay("a", "new", now: 0) == 1_000_000_000 && throttle.delay("b", "new", now: 0) == 0)
        // A success clears only the failures of the user who logged in.
        for _ in 0..<9 { throttle.succeeded("a", "new") }
        #expect(throttle.delay("a", "new", now: 0) == 1_000_000_000)
        throttle.succeeded("a", "u7")
        #expect(throttle.delay("a", "new", now: 0) == 500_000_000)
        throttle.succeeded("a", "u7")
        #expect(throttle.delay("a", "new", now: 0) == 500_000_000)
    }

    @Test func aSuccessForgivesNoMoreThanTheAddressWasCharged() {
        var throttle = LoginThrottle()
        for number in 0..<16 { _ = throttle.failed("a", "u\(number)", now: 0) }
        // Five of these failures count for the address.
        for _ in 0..<12 { _ = throttle.failed("a", "v", now: 0) }
        #expect(throttle.delay("a", "new", now: 0) == 500_000_000)
        throttle.succeeded("a", "v")
        for number in 0..<4 { _ = throttle.failed("a", "w\(number)", now: 0) }
        #expect(throttle.delay("a", "new", now: 0) == 0)
        _ = throttle.failed("a", "x", now: 0)
        #expect(throttle.delay("a", "new", now: 0) == 500_000_000)
    }

    @Test func theTablesAreBounded() {
        var throttle = LoginThrottle(capacity: 8)
        for index in 0..<1000 {
            for _ in 0..<7 { _ = throttle.failed("a\(index)", "u", now: UInt64(index)) }
            #expect(throttle.count <= 16)
        }
        // The most recent addresses are kept.
        #expect(throttle.delay("a999", "u", now: 999) > 0 && throttle.delay("a0", "u", now: 999) == 0)
    }
}

@Suite struct RecentLoginsTests {
    @Test func passwordsAreRememberedForAWhile() {
        var recent = RecentLogins(secret: [1])
        recent.insert("a", [1], "hash", now: 0)
        #expect(recent.contains("a", [1], "hash", now: RecentLogins.lifetime - 1))
        #expect(!recent.contains("a", [1], "hash", now: RecentLogins.lifetime))
        #expect(!recent.contains("a", [2], "hash", now: 0) && !recent.contains("b", [1], "hash", now: 0))
        #expect(!recent.contains("a", [1], "other", now: 0))
    }

    @Test func theyAreBounded() {
        var recent = RecentLogins(secret: [1])
        // If there are too many logins, older ones are dropped and recent ones are kept.
        for index in 0..<RecentLogins.capacity + 1 { recent.insert("v\(index)", [1], "hash", now: 0) }
        let left = (0...RecentLogins.capacity).filter { recent.contains("v\($0)", [1], "hash", now: 1) }
        #expect(left.count >= RecentLogins.capacity / 2 && left.last == RecentLogins.capacity)
        for index in 0..<3000 { recent.insert("u\(index)", [1], "hash", now: UInt64(index)) }
        #expect(recent.count <= RecentLogins.capacity && recent.contains("u2999", [1], "hash", now: 3000))
    }
}

@Suite struct AccessSettingsTests {
    @Test func hashesOfEachMethod() throws {
        let made = try #require(PasswordHash.make(of: Array("secret".utf8)))
        #expect(made.hasPrefix("$y$") && PasswordHash.matches(Array("secret".utf8), made))
        #expect(!PasswordHash.matches(Array("secreT".utf8), made))
        #expect(PasswordHash.fault(of: made) == nil && made != PasswordHash.make(of: Array("secret".utf8)))
        // From the crypt(3) test vectors: "Hello world!" by sha512, "U*U" by bcrypt.
        let sha512 =
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"
        let bcrypt = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
        for (hash, password) in [(sha512, "Hello world!"), (bcrypt, "U*U")] {
            #expect(PasswordHash.fault(of: hash) == nil && PasswordHash.matches(Array(password.utf8), hash))
            #expect(!PasswordHash.matches(Array("other".utf8), hash))
        }
    }

    @Test(arguments: [
        "", "secret", "$1$abc$def", "$y$j9T$", "$6$salt$short", "$2b$04$short", "*", "$5$salt$hash", "ab01cd23ef45g",
    ]) func textsThatAreNoHashes(_ text: String) {
        var settings = AccessSettings()
        settings.users = [UserSettings(name: "alice", password: text)]
        let error = #expect(throws: AccessError.self) { try AccessRules(settings) }
        #expect(error?.place == "users[0].password" && (text.count < 5 || error?.fault.contains(text) == false))
    }

    @Test func passwordsThatCannotBe() {
        #expect(PasswordHash.make(of: []) == nil && PasswordHash.make(of: [65, 0]) == nil)
        #expect(PasswordHash.make(of: [UInt8](repeating: 65, count: 512)) == nil)
        #expect(PasswordHash.make(of: [UInt8](repeating: 65, count: 511)) != nil)
    }

    @Test func settingsThatAreRefused() {
        let token = "sha256:" + String(repeating: "ab", count: 32)
        let cases: [([UserSettings], String)] = [
            ([UserSettings(name: "")], "users[0].name"), ([UserSettings(name: "a:b")], "users[0].name"),
            ([UserSettings(name: String(repeating: "x", count: 129))], "users[0].name"),
            ([UserSettings(name: "a")], "users[0]"),
            ([UserSettings(name: "a", token: token), UserSettings(name: "a", certificate: "x")], "users[1].name"),
            ([UserSettings(name: "a", token: token), UserSettings(name: "b", token: token)], "users[1].token"),
            (
                [UserSettings(name: "a", certificate: "x"), UserSettings(name: "b", certificate: "x")],
                "users[1].certificate"
            ),
            ([UserSettings(name: "a", token: "secret")], "users[0].token"),
            ([UserSettings(name: "a", token: "sha256:zz")], "users[0].token"),
            ([UserSettings(name: "a", certificate: "")], "users[0].certificate"),
            ([UserSettings(name: "a", permissions: PermissionSettings(block: ["a..b"]))], "users[0].block"),
        ]
        for (users, place) in cases {
            var settings = AccessSettings()
            settings.users = users
            let error = #expect(throws: AccessError.self) { try AccessRules(settings) }
            #expect(error?.place == place)
        }
    }

    @Test func withoutUsersEverybodyMayDoEverything() throws {
        var settings = AccessSettings()
        #expect(settings.isOpen && AccessRules.open.table.isOpen)
        settings.jwt.keys = [JWTKeySettings(id: "a", algorithm: .hs256, material: JWTTests.secret)]
        let rules = try AccessRules(settings)
        #expect(!settings.isOpen && !rules.table.isOpen)
    }
}
