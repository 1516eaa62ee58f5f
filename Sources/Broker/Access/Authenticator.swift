// Authenticator: turns credentials into a user. Hashing passwords is slow, so an Authenticator must not run on a
// shard's thread. It neither reads the clock nor does I/O.

import Core

/// Checks credentials, one at a time. Belongs to one thread.
public struct Authenticator: ~Copyable {
    private let table: AccessTable
    private let verifier: JWTVerifier
    /// The hash that passwords of unknown users are compared with, so that checking them takes as long as for known
    /// users.
    private let dummy: String?
    private let tokens: [(digest: [UInt8], user: AccessTable.User)]
    private var recent: RecentLogins
    private var throttle: LoginThrottle
    /// Set if the last `authenticate` caused logins to be slowed down.
    public private(set) var newlySlowed: Slowed?
    /// The login that the last `authenticate` added to its cache, for other authenticators with the same secret.
    public private(set) var newlyKnown: KnownLogin?

    /// - Parameters:
    ///   - secret: 32 random bytes.
    ///   - throttle: slows down failed logins.
    public init(_ rules: AccessRules, secret: [UInt8], throttle: LoginThrottle = LoginThrottle()) {
        let settings = rules.settings
        table = rules.table
        verifier = JWTVerifier(keys: rules.keys, audience: settings.jwt.audience, issuer: settings.jwt.issuer)
        dummy = settings.users.compactMap(\.password).first
        tokens = settings.users.compactMap { user in
            rules.table.user(user.name).flatMap { user in user.token.map { ($0, user) } }
        }
        recent = RecentLogins(secret: secret)
        self.throttle = throttle
    }

    /// Replaces the rules. The history of addresses is kept.
    public mutating func adopt(_ rules: AccessRules) {
        self = Authenticator(rules, secret: recent.secret, throttle: throttle)
    }

    /// Adds a successful login from another authenticator with the same secret.
    public mutating func note(_ login: KnownLogin, now: UInt64) { recent.insert(login, now: now) }

    /// Whether a login from this address has failed recently.
    public mutating func hasFailed(_ address: String, now: UInt64) -> Bool { throttle.hasFailed(address, now: now) }

    /// Like `authenticate`, but returns nil if that would have to compute the slow hash of a password.
    public mutating func authenticateAtOnce(
        _ credential: Credential, from address: String, now: Instant
    ) -> LoginOutcome? {
        (newlySlowed, newlyKnown) = (nil, nil)
        guard case .password = credential else { return authenticate(credential, from: address, now: now) }
        if let known = recall(credential, now: now) { return known }
        return slowed(Authenticator.claimed(by: credential), address, now: now)
    }

    /// Accepts recent logins regardless of failures from the same address.
    private func recall(_ credential: Credential, now: Instant) -> LoginOutcome? {
        guard case .password(let name, let password) = credential, let user = table.user(name),
            let hash = user.password, recent.contains(name, password, hash, now: now.monotonic)
        else { return nil }
        return accept(user, .password(hash))
    }

    private mutating func slowed(_ claimed: String, _ address: String, now: Instant) -> LoginOutcome? {
        let delay = throttle.delay(address, claimed, now: now.monotonic)
        return delay == 0 ? nil : .slowed(seconds: Int((delay + 999_999_999) / 1_000_000_000))
    }

    /// Identifies the user.
    ///
    /// - Parameters:
    ///   - address: the client's address, without a port.
    ///   - now: for the throttle and the lifetime of tokens.
    public mutating func authenticate(_ credential: Credential, from address: String, now: Instant) -> LoginOutcome {
        (newlySlowed, newlyKnown) = (nil, nil)
        if let known = recall(credential, now: now) { return known }
        let claimed = Authenticator.claimed(by: credential)
        if let slowed = slowed(claimed, address, now: now) { return slowed }
        let outcome =
            switch credential {
            case .password(let name, let password): logIn(name, password, now: now.monotonic)
            case .token(let token): logIn(token, wall: now.wall)
            }
        switch outcome {
        case .accepted: throttle.succeeded(address, claimed)
        case .wrong:
            if throttle.failed(address, claimed, now: now.monotonic) {
                newlySlowed = Slowed(address: address, user: knownUser(of: credential))
            }
        // An expired or early token was signed with a valid key.
        case .expired, .notYetValid, .slowed, .busy: break
        }
        return outcome
    }

    /// The throttle's key for a login: its user name, or its token, which comes without a name. Hashed, to be short
    /// and to reveal no secret.
    private static func claimed(by credential: Credential) -> String {
        switch credential {
        case .password(let user, _): "user \(Digest.hex(Digest.sha256(Array(user.utf8))))"
        case .token(let token): "token \(Digest.hex(Digest.sha256(token)))"
        }
    }

    private func knownUser(of credential: Credential) -> String? {
        guard case .password(let name, _) = credential else { return nil }
        return table.user(name)?.name
    }

    private mutating func logIn(_ name: String, _ password: [UInt8], now: UInt64) -> LoginOutcome {
        guard let user = table.user(name), let hash = user.password else {
            if let dummy { _ = PasswordHash.matches(password, dummy) }
            return .wrong
        }
        guard PasswordHash.matches(password, hash) else { return .wrong }
        newlyKnown = recent.insert(name, password, hash, now: now)
        return accept(user, .password(hash))
    }

    private func logIn(_ token: [UInt8], wall: Int64) -> LoginOutcome {
        let digest = Digest.sha256(token)
        var found: AccessTable.User?
        for entry in tokens where Digest.isSame(entry.digest, digest) { found = entry.user }
        if let found { return accept(found, .token(digest)) }
        let claims: JWTClaims
        do throws(JWTFault) {
            claims = try verifier.verify(token, wall: wall)
        } catch {
            switch error {
            case .wrong: return .wrong
            case .expired(let user): return .expired(user: user)
            case .notYetValid: return .notYetValid
            }
        }
        let proof = Principal.Proof.signature(
            key: claims.key.fingerprint, bringsPermissions: claims.permissions != nil)
        guard let permissions = claims.permissions ?? table.user(claims.user)?.permissions else { return .wrong }
        return .accepted(
            Principal(user: claims.user, permissions: permissions, proof: proof, expires: claims.expires))
    }

    private func accept(_ user: AccessTable.User, _ proof: Principal.Proof) -> LoginOutcome {
        .accepted(Principal(user: user.name, permissions: user.permissions, proof: proof))
    }
}

/// The address, and the user if known, whose logins are slowed down.
public struct Slowed: Sendable, Equatable {
    public var address: String
    /// The user whose password was wrong, if that user exists.
    public var user: String?
}
