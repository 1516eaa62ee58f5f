// LoginThrottle: logins that fail are slowed down, by whose they are and the address they come from, and by the address
// alone. A few may fail at once; from then on each failure doubles the time until the next such login is looked at.
//
//     failures of a user at an address:  1 … 5      6       7     …   12 and more
//     of all at an address:              1 … 20     21      22    …   27 and more
//     next login after:                  at once    0.5 s   1 s   …   32 s
//
// A user's failures count for the address as long as they are free: one client that goes on with an old password slows
// only itself. A login that succeeds makes those of its own user undone, and no others: whoever has an account of his
// own guesses at others no faster for that. What failed is forgotten after ten minutes without another failure. An IPv6
// address counts with all of its /64, which one customer has to itself.

import Core

/// Belongs to one thread. No clock of its own: times are nanoseconds of one that never steps back.
public struct LoginThrottle {
    /// Addresses that are remembered, and users at them. When they are more, those that failed longest ago go.
    public static let capacity = 4096
    /// Logins of one user from one address that may fail before any is slowed, and those of all from there.
    public static let free = 5
    public static let freeOfAddress = 20
    static let firstDelay: UInt64 = 500_000_000
    static let longestDelay: UInt64 = 32_000_000_000
    static let memory: UInt64 = 600_000_000_000

    private var addresses: Failures
    private var users: Failures

    public init(capacity: Int = LoginThrottle.capacity) {
        addresses = Failures(capacity: capacity, free: LoginThrottle.freeOfAddress)
        users = Failures(capacity: capacity, free: LoginThrottle.free)
    }

    /// Addresses and users that are remembered now.
    var count: Int { addresses.count + users.count }

    /// Nanoseconds until a login of `user` from `address` is looked at; 0 is now.
    /// - Parameter user: whatever tells one whose login it is from another.
    public mutating func delay(_ address: String, _ user: String, now: UInt64) -> UInt64 {
        let address = AddressBlock.of(address)
        return Swift.max(
            addresses.delay(address, now: now), users.delay(LoginThrottle.key(address, user), now: now))
    }

    /// A login from that address failed, not long ago.
    mutating func hasFailed(_ address: String, now: UInt64) -> Bool {
        addresses.isKnown(AddressBlock.of(address), now: now)
    }

    /// A login failed. True: from now on such ones are slowed down.
    public mutating func failed(_ address: String, _ user: String, now: UInt64) -> Bool {
        let address = AddressBlock.of(address)
        let failures = users.add(LoginThrottle.key(address, user), now: now)
        let ofAddress = failures <= LoginThrottle.free ? addresses.add(address, now: now) : 0
        return failures == LoginThrottle.free + 1 || ofAddress == LoginThrottle.freeOfAddress + 1
    }

    /// A login succeeded.
    public mutating func succeeded(_ address: String, _ user: String) {
        let address = AddressBlock.of(address)
        let failures = users.remove(LoginThrottle.key(address, user))
        addresses.forgive(address, Swift.min(failures, LoginThrottle.free))
    }

    private static func key(_ network: String, _ user: String) -> String { "\(network) \(user)" }
}

/// How often something failed, by a key.
private struct Failures {
    private struct Entry {
        var count: Int
        var last: UInt64
    }

    private var entries: [String: Entry] = [:]
    private let capacity: Int
    private let free: Int

    init(capacity: Int, free: Int) {
        self.capacity = capacity
        self.free = free
    }

    var count: Int { entries.count }

    mutating func delay(_ key: String, now: UInt64) -> UInt64 {
        guard let entry = entries[key] else { return 0 }
        let since = now - Swift.min(now, entry.last)
        guard since < LoginThrottle.memory else {
            entries[key] = nil
            return 0
        }
        guard entry.count > free else { return 0 }
        let doublings = Swift.min(entry.count - free - 1, 30)
        let delay = Swift.min(LoginThrottle.firstDelay << UInt64(doublings), LoginThrottle.longestDelay)
        return since < delay ? delay - since : 0
    }

    mutating func isKnown(_ key: String, now: UInt64) -> Bool {
        _ = delay(key, now: now)
        return entries[key] != nil
    }

    /// Returns how often it has failed by now.
    mutating func add(_ key: String, now: UInt64) -> Int {
        if entries[key] == nil, entries.count >= capacity { forgetOldest() }
        var entry = entries[key] ?? Entry(count: 0, last: now)
        entry.count = Swift.min(entry.count + 1, 1000)
        entry.last = now
        entries[key] = entry
        return entry.count
    }

    /// Returns how often it had failed.
    mutating func remove(_ key: String) -> Int { entries.removeValue(forKey: key)?.count ?? 0 }

    mutating func forgive(_ key: String, _ count: Int) {
        guard count > 0, var entry = entries[key] else { return }
        entry.count -= count
        entries[key] = entry.count > 0 ? entry : nil
    }

    /// An eighth at a time, so that a flood of them does not have all gone over for each.
    private mutating func forgetOldest() {
        let oldest = entries.sorted { ($0.value.last, $0.key) < ($1.value.last, $1.key) }
        for (key, _) in oldest.prefix(Swift.max(1, capacity / 8)) { entries[key] = nil }
    }
}
