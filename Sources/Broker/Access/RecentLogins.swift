// RecentLogins: a cache of passwords that were correct, so that they need not be hashed slowly again for a while. They
// are kept as HMACs under a key of this process, so leaked entries are useless elsewhere.

/// The HMAC of a correct password, and when it expires.
public struct KnownLogin: Sendable {
    let key: [UInt8]
    let until: UInt64
}

/// Belongs to one thread. Times are nanoseconds of a monotonic clock.
struct RecentLogins {
    /// Logins in the cache, in two generations: when the younger one is full, the older one is dropped.
    static let capacity = 1024
    static let lifetime: UInt64 = 300_000_000_000

    private var younger: [[UInt8]: UInt64] = [:]
    private var older: [[UInt8]: UInt64] = [:]
    let secret: [UInt8]

    init(secret: [UInt8]) { self.secret = secret }

    /// - Parameter hash: the hash that the password matched. If the user's hash changes, the entry no longer matches.
    @discardableResult
    mutating func insert(_ user: String, _ password: [UInt8], _ hash: String, now: UInt64) -> KnownLogin {
        let login = KnownLogin(key: key(user, password, hash), until: now + RecentLogins.lifetime)
        insert(login, now: now)
        return login
    }

    mutating func insert(_ login: KnownLogin, now: UInt64) {
        if younger.count >= RecentLogins.capacity / 2, younger[login.key] == nil {
            older = younger
            younger = [:]
        }
        younger[login.key] = login.until
        older[login.key] = nil
    }

    func contains(_ user: String, _ password: [UInt8], _ hash: String, now: UInt64) -> Bool {
        let key = key(user, password, hash)
        return (younger[key] ?? older[key]).map { now < $0 } ?? false
    }

    var count: Int { younger.count + older.count }

    private func key(_ user: String, _ password: [UInt8], _ hash: String) -> [UInt8] {
        // Neither a name nor a hash contains a NUL.
        Digest.hmac(Array(user.utf8) + [0] + Array(hash.utf8) + [0] + password, key: secret)
    }
}
