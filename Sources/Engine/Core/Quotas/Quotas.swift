// Quotas: counts across all shards of a broker: connections, subscriptions and topics, in total, by user and by
// address. The counts change when something is opened or ends, never for a message.

import Synchronization

/// A count of things with a limit.
final class Quota: Sendable {
    private let count = Atomic<Int>(0)

    var value: Int { count.load(ordering: .relaxed) }

    /// Adds one; returns false if there are already `limit`.
    func take(limit: Int) -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        give()
        return false
    }

    /// Adds one, whatever the limit is.
    func add() { count.add(1, ordering: .relaxed) }

    func give() { count.subtract(1, ordering: .relaxed) }
}

/// What one user has and uses on all shards. All clients without credentials are one user.
final class Account: Sendable {
    /// Nil for anonymous clients.
    let user: String?
    let connections = Quota()
    let subscriptions = Quota()
    /// Connections that can be resumed.
    let sessions = Quota()
    /// Topics that the user was the first to use.
    let topics = Quota()
    /// The user's publishing rates.
    let messages = SharedBucket()
    let bytes = SharedBucket()

    init(user: String?) { self.user = user }

    /// For example "User 'alice'", to begin a sentence.
    var title: String { user.map { "User '\($0)'" } ?? "Anonymous clients" }

    /// For example "User 'alice' has", to begin a sentence.
    var titleHas: String { user == nil ? "\(title) have" : "\(title) has" }

    /// Whether the account's buckets hold no more than those of a new one would.
    func isRemovable(at now: UInt64) -> Bool { messages.bucket.fullAt <= now && bytes.bucket.fullAt <= now }
}

/// Shared by all shards of a broker.
public final class Quotas: Sendable {
    /// Unused accounts above which even those with buckets that are not full are removed.
    static let idleAccounts = 100_000

    let connections = Quota()
    let subscriptions = Quota()
    let topics = Quota()
    /// Publishers that number their messages, once for each of their topics.
    let publishers = Quota()
    let patterns = PatternQuota()
    let sessions = SessionTable()
    private let anonymous = Account(user: nil)
    private let book = Book()

    public init() {}

    /// The account of a user. The account stays the same as long as it is referenced or has state.
    func account(of user: String?, now: UInt64) -> Account {
        guard let user else { return anonymous }
        return book.lock.with { book.account(of: user, now: now) }
    }

    /// Counts a connection from an address, or from its /64. Returns false if there are already `limit`.
    func connect(_ address: String, limit: Int) -> Bool {
        let block = AddressBlock.of(address)
        return book.lock.with {
            let count = book.addresses[block, default: 0]
            guard count < limit else { return false }
            book.addresses[block] = count + 1
            return true
        }
    }

    func disconnect(_ address: String) {
        let block = AddressBlock.of(address)
        book.lock.with {
            guard let count = book.addresses[block] else { return }
            book.addresses[block] = count > 1 ? count - 1 : nil
        }
    }

    /// Whether nothing is counted except topics, some of which are the broker's own.
    var isUnused: Bool {
        connections.value == 0 && subscriptions.value == 0 && sessions.count == 0 && publishers.value == 0
            && patterns.value == 0
            && book.lock.with { book.addresses.isEmpty }
            && anonymous.connections.value == 0 && anonymous.subscriptions.value == 0 && anonymous.topics.value == 0
    }

    /// The number of accounts kept.
    var accountCount: Int { book.lock.with { book.accounts.count } }

    /// State protected by the lock.
    private final class Book: @unchecked Sendable {
        let lock = Lock()
        var addresses: [String: Int] = [:]
        var accounts: [String: Account] = [:]
        /// The order in which accounts are checked for removal; each user in the table is in this queue once.
        private var users = TurnQueue<String>()
        /// Accounts still to be checked in this pass over the table, and those found idle in it.
        private var left = 0
        private var idle = 0
        /// Accounts checked for each one added.
        private static let swept = 2

        func account(of user: String, now: UInt64) -> Account {
            if let account = accounts[user] { return account }
            for _ in 0..<Swift.min(Book.swept, users.count) { sweepNext(now: now) }
            let account = Account(user: user)
            accounts[user] = account
            users.append(user)
            return account
        }

        /// Removes the next account if it is neither referenced nor has state.
        private func sweepNext(now: UInt64) {
            if left == 0 { (left, idle) = (users.count, 0) }
            left -= 1
            // The account is removed during the check, so that other references to it can be detected.
            guard let user = users.popFirst(), var account = accounts.removeValue(forKey: user) else { return }
            if isKnownUniquelyReferenced(&account) {
                if account.isRemovable(at: now) || idle >= Quotas.idleAccounts { return }
                idle += 1
            }
            accounts[user] = account
            users.append(user)
        }
    }
}
