// UserRateLimit: one user's publishing on one shard. It takes tokens from the user's buckets for each batch that
// arrives, and queues what waits for tokens: parked publishes, and channels with credit that has not been sent.

import Replay

/// Tokens of one bucket that a shard took for the current turn and has not used.
struct Purse {
    /// A shard takes at most this many more tokens than it needs, and at most a quarter of what is available, because
    /// others share the bucket.
    static let most = 256 << 10
    private(set) var held = 0

    mutating func take(_ count: Int, from bucket: SharedBucket, _ rate: TokenRate?, now: UInt64) -> Bool {
        guard let rate else { return true }
        if held < count {
            // A message larger than the bucket needs it to be full.
            putBack(to: bucket, rate)
            guard bucket.update({ $0.take(count, at: now, rate) }) else { return false }
            held = bucket.update { bucket in
                let spare = Swift.min(bucket.available(at: now, rate) / 4, Purse.most)
                return bucket.takeUpTo(spare, at: now, rate)
            }
        } else {
            held -= count
        }
        return true
    }

    /// Takes back tokens that turned out not to be needed.
    mutating func keep(_ count: Int) { held += count }

    mutating func putBack(to bucket: SharedBucket, _ rate: TokenRate?) {
        guard held > 0 else { return }
        let count = held
        held = 0
        if let rate { bucket.update { $0.putBack(count, rate) } }
    }
}

/// How fast each user may publish; nil means unlimited.
struct PublishRates: Equatable {
    let messages: TokenRate?
    let bytes: TokenRate?
    /// Whether there is any limit.
    let isLimited: Bool

    init(_ limits: Limits) {
        messages = TokenRate(perSecond: limits.publishRate, burst: limits.publishBurst)
        bytes = TokenRate(perSecond: limits.publishBytes, burst: limits.publishBurst)
        isLimited = messages != nil || bytes != nil
    }

    /// The most that a channel is granted at a time: half a second's worth, so that room is not reserved for credit
    /// that cannot be sent yet.
    var largestGrant: Int { messages.map { Int(clamping: Swift.max(1, $0.perSecond / 2)) } ?? Int.max }
}

final class UserRateLimit {
    let account: Account
    /// Publishes, and openings of channels, that wait for tokens, in order of arrival.
    var parked: ParkedQueue
    /// Channels with granted credit that cannot be sent yet, served in turn.
    var channels = TurnQueue<Publisher>()
    /// Whether the meter is in the shard's queue of meters that wait for tokens.
    fileprivate(set) var isListed = false
    /// Whether channels are served first when parked publishes wait too.
    var isChannelsTurn = false
    /// Whether the meter holds tokens to be put back when the turn ends.
    private(set) var isTouched = false
    private var messages = Purse()
    private var bytes = Purse()
    /// When it was last logged that the user is held back, on the monotonic clock.
    private var logged: UInt64?
    private static let logInterval: UInt64 = 60_000_000_000

    init(_ account: Account, budget: MemoryBudget) {
        self.account = account
        parked = ParkedQueue(budget: budget)
    }

    /// Whether to log at `now` that the user is held back: at most once a minute.
    func isDueForLog(_ now: UInt64) -> Bool {
        if let logged, now - Swift.min(logged, now) < UserRateLimit.logInterval { return false }
        logged = now
        return true
    }

    var isWaiting: Bool { !parked.isEmpty || !channels.isEmpty }

    /// Takes the tokens for a message of `size` bytes. Returns the limit that prevents it, if any.
    func take(_ size: Int, _ rates: PublishRates, now: UInt64) -> LimitReached? {
        isTouched = true
        guard messages.take(1, from: account.messages, rates.messages, now: now) else { return .publishRate }
        guard bytes.take(size, from: account.bytes, rates.bytes, now: now) else {
            if rates.messages != nil { messages.keep(1) }
            return .publishBytes
        }
        return nil
    }

    func putBack(_ rates: PublishRates) {
        isTouched = false
        messages.putBack(to: account.messages, rates.messages)
        bytes.putBack(to: account.bytes, rates.bytes)
    }

    /// Prepays at most `wanted` messages of a channel, based on the size of its recent ones. Returns how many.
    func pay(_ wanted: Int, for publisher: Publisher, _ rates: PublishRates, now: UInt64) -> Int {
        var count = wanted
        if let rate = rates.bytes {
            let there = account.bytes.bucket.available(at: now, rate)
            guard there > 0 else { return 0 }
            count = Swift.min(count, Swift.max(1, there / publisher.prepaid.typical))
        }
        if let rate = rates.messages {
            count = account.messages.update { [count] in $0.takeUpTo(count, at: now, rate) }
        }
        guard count > 0 else { return 0 }
        var bytes = 0
        if let rate = rates.bytes {
            bytes = count * publisher.prepaid.typical
            account.bytes.update { [bytes] in $0.owe(bytes, at: now, rate) }
        }
        publisher.prepaid.add(count, bytes: bytes)
        return count
    }

    /// Charges messages of a channel that have arrived: what exceeds the prepayment is owed, what falls short of it is
    /// put back.
    func charge(_ count: Int, bytes: Int, to publisher: Publisher, _ rates: PublishRates, now: UInt64) {
        let (paid, paidBytes) = publisher.prepaid.use(count, bytes: bytes)
        if let rate = rates.messages, count > paid {
            account.messages.update { $0.owe(count - paid, at: now, rate) }
        }
        guard let rate = rates.bytes, bytes != paidBytes else { return }
        account.bytes.update { bucket in
            if bytes > paidBytes {
                bucket.owe(bytes - paidBytes, at: now, rate)
            } else {
                bucket.putBack(paidBytes - bytes, rate)
            }
        }
    }

    /// Refunds messages that will not arrive.
    func refund(_ publisher: Publisher, _ rates: PublishRates) {
        let (count, bytes) = publisher.prepaid.takeAll()
        if count > 0, let rate = rates.messages { account.messages.update { $0.putBack(count, rate) } }
        if bytes > 0, let rate = rates.bytes { account.bytes.update { $0.putBack(bytes, rate) } }
    }

    /// When to check again whether waiting publishers can continue or have waited too long.
    func due(_ rates: PublishRates) -> UInt64 {
        Swift.min(tokensDue(rates), parked.first?.deadline ?? .max)
    }

    private func tokensDue(_ rates: PublishRates) -> UInt64 {
        let size = parked.first.map { $0.message.firstSize ?? Prepaid.unknownSize } ?? 1
        let messages = rates.messages.map { account.messages.bucket.ready(1, $0) } ?? 0
        let bytes = rates.bytes.map { account.bytes.bucket.ready(size, $0) } ?? 0
        return Swift.max(messages, bytes)
    }
}

/// The meters of one shard, by user.
struct UserRateLimits {
    /// Users checked for each user added: more than one, so that the table never holds many idle users.
    private static let swept = 2

    private var byUser: [String?: UserRateLimit] = [:]
    /// The order in which users are checked for removal; each user in the table is in this queue once.
    private var users = TurnQueue<String?>()
    /// Meters with publishers that wait for tokens, served in turn.
    private var waiting = TurnQueue<UserRateLimit>()

    var isEmpty: Bool { byUser.isEmpty }
    var count: Int { byUser.count }
    var all: some Collection<UserRateLimit> { byUser.values }
    var waitingCount: Int { waiting.count }
    subscript(user: String?) -> UserRateLimit? { byUser[user] }

    mutating func add(_ rateLimit: UserRateLimit) {
        sweep(UserRateLimits.swept)
        byUser[rateLimit.account.user] = rateLimit
        users.append(rateLimit.account.user)
    }

    mutating func enlist(_ rateLimit: UserRateLimit) {
        guard !rateLimit.isListed else { return }
        rateLimit.isListed = true
        waiting.append(rateLimit)
    }

    mutating func nextWaiting() -> UserRateLimit? {
        let rateLimit = waiting.popFirst()
        rateLimit?.isListed = false
        return rateLimit
    }

    /// Checks up to `most` users, and removes those that are no longer used.
    mutating func sweep(_ most: Int) {
        for _ in 0..<Swift.min(most, users.count) {
            // The meter is removed during the check, so that other references to it can be detected.
            guard let user = users.popFirst(), var rateLimit = byUser.removeValue(forKey: user) else { continue }
            guard rateLimit.isWaiting || !isKnownUniquelyReferenced(&rateLimit) else { continue }
            byUser[user] = rateLimit
            users.append(user)
        }
    }
}
