// RecentLogins: passwords that were right a short while ago need not be hashed slowly again. Kept as HMACs under a key
// of this process, so that nothing which can be read here is of use elsewhere.

/// A password that was right, as an HMAC, and when that is forgotten.
public struct KnownLogin: Sendable {
    let key: [UInt8]
    let until: UInt64
}

/// Belongs to one thread. Times are nanoseconds of a clock that never steps back.
struct RecentLogins {
    /// Logins that are remembered; one more has all of them forgotten.
    static let capacity = 1024
    static let lifetime: UInt64 = 300_000_000_000

    private var until: [[UInt8]: UInt64] = [:]
    let secret: [UInt8]

    init(secret: [UInt8]) { self.secret = secret }

    /// - Parameter hash: the one that the password was right for; with another it is not.
    @discardableResult
    mutating func insert(_ user: String, _ password: [UInt8], _ hash: String, now: UInt64) -> KnownLogin {
        let login = KnownLogin(key: key(user, password, hash), until: now + RecentLogins.lifetime)
        insert(login, now: now)
        return login
    }

    mutating func insert(_ login: KnownLogin, now: UInt64) {
        if until.count >= RecentLogins.capacity {
            until = until.filter { $0.value > now }
            if until.count >= RecentLogins.capacity { until.removeAll() }
        }
        until[login.key] = login.until
    }

    func contains(_ user: String, _ password: [UInt8], _ hash: String, now: UInt64) -> Bool {
        until[key(user, password, hash)].map { now < $0 } ?? false
    }

    var count: Int { until.count }

    private func key(_ user: String, _ password: [UInt8], _ hash: String) -> [UInt8] {
        // Neither a name nor a hash has a NUL.
        Digest.hmac(Array(user.utf8) + [0] + Array(hash.utf8) + [0] + password, key: secret)
    }
}
