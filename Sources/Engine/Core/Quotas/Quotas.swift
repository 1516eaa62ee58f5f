// Quotas: what is counted over all shards of a broker – connections, subscriptions and topics, in all, by user and by
// address. Counts are taken when something is opened and given back when it ends, never for a message.

import Synchronization

/// A number of things, of which there may be so many.
final class Quota: Sendable {
    private let count = Atomic<Int>(0)

    var value: Int { count.load(ordering: .relaxed) }

    /// One more; false when there are `limit` already.
    func take(limit: Int) -> Bool {
        if count.add(1, ordering: .relaxed).newValue <= limit { return true }
        give()
        return false
    }

    func give() { count.subtract(1, ordering: .relaxed) }
}

/// What one user has and takes, on all shards. Those without credentials are one user together.
final class Account: Sendable {
    /// Nil: the anonymous.
    let user: String?
    let connections = Quota()
    let subscriptions = Quota()
    /// Connections that can be resumed.
    let sessions = Quota()
    /// Topics that the user was the first to use.
    let topics = Quota()
    /// What the user may publish.
    let messages = SharedBucket()
    let bytes = SharedBucket()

    init(user: String?) { self.user = user }

    /// "User 'alice'", for a sentence.
    var title: String { user.map { "User '\($0)'" } ?? "Who has no credentials" }

    /// Nothing would be known of it that a new one did not know as well.
    func isForgettable(at now: UInt64) -> Bool { messages.bucket.fullAt <= now && bytes.bucket.fullAt <= now }
}

/// One for all shards of a broker.
public final class Quotas: Sendable {
    /// Accounts that nobody uses now, beyond which even those go whose buckets are not full again.
    static let idleAccounts = 100_000

    let connections = Quota()
    let subscriptions = Quota()
    let topics = Quota()
    let sessions = SessionTable()
    private let anonymous = Account(user: nil)
    private let book = Book()

    public init() {}

    /// The account of a user, the same one as long as anybody holds it or anything is known of it.
    func account(of user: String?, now: UInt64) -> Account {
        guard let user else { return anonymous }
        return book.lock.with { book.account(of: user, now: now) }
    }

    /// One more connection from an address, or its /64; false when there are `limit` already.
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

    /// Nothing is counted but topics, some of which are the broker's own.
    var isUnused: Bool {
        connections.value == 0 && subscriptions.value == 0 && sessions.count == 0
            && book.lock.with { book.addresses.isEmpty }
            && anonymous.connections.value == 0 && anonymous.subscriptions.value == 0 && anonymous.topics.value == 0
    }

    /// Accounts that are remembered.
    var accountCount: Int { book.lock.with { book.accounts.count } }

    /// What is only touched under its lock.
    private final class Book: @unchecked Sendable {
        let lock = Lock()
        var addresses: [String: Int] = [:]
        var accounts: [String: Account] = [:]
        /// Whose account to look at next in order to forget it; each user in the table once.
        private var users = TurnQueue<String>()
        /// Accounts still to be looked at on this way through the table, and those found idle on it.
        private var left = 0
        private var idle = 0
        /// Accounts looked at for each one that is added.
        private static let swept = 2

        func account(of user: String, now: UInt64) -> Account {
            if let account = accounts[user] { return account }
            for _ in 0..<Swift.min(Book.swept, users.count) { sweepNext(now: now) }
            let account = Account(user: user)
            accounts[user] = account
            users.append(user)
            return account
        }

        /// Forgets the next one if nobody holds it and there is nothing to know of it.
        private func sweepNext(now: UInt64) {
            if left == 0 { (left, idle) = (users.count, 0) }
            left -= 1
            // Out of the table while it is looked at, so that whoever else holds it shows.
            guard let user = users.popFirst(), var account = accounts.removeValue(forKey: user) else { return }
            if isKnownUniquelyReferenced(&account) {
                if account.isForgettable(at: now) || idle >= Quotas.idleAccounts { return }
                idle += 1
            }
            accounts[user] = account
            users.append(user)
        }
    }
}
