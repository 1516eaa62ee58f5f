// LoginThrottle: slows down failing logins, per user at an address and per address. The first few failures are free;
// after that each failure doubles the time until the next such login is checked.
//
//     failures of a user at an address:  1 … 5      6       7     …   12 and more
//     failures of an address:            1 … 20     21      22    …   27 and more
//     next login after:                  0 s        0.5 s   1 s   …   32 s
//
// Only a user's free failures count for the address as well: a client that keeps using an old password slows down only
// itself. A successful login clears the failures of its own user and no others, so having an account does not help to
// guess the passwords of other users. Failures are forgotten after ten minutes without a further failure. IPv6
// addresses are counted per /64, the usual allocation to one customer.

import Core

/// Belongs to one thread. Does not read the clock: times are nanoseconds of a monotonic clock.
public struct LoginThrottle {
    /// How many addresses are remembered, and how many pairs of user and address. Beyond that, the oldest failures are
    /// forgotten.
    public static let capacity = 4096
    /// Failures that are allowed before delays begin, for a user at an address and for an address in total.
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

    /// Addresses and users that are remembered.
    var count: Int { addresses.count + users.count }

    /// Nanoseconds until a login of `user` from `address` may be checked; 0 means now.
    /// - Parameter user: any string that identifies the user.
    public mutating func delay(_ address: String, _ user: String, now: UInt64) -> UInt64 {
        let address = AddressBlock.of(address)
        return Swift.max(
            addresses.delay(address, now: now), users.delay(LoginThrottle.key(address, user), now: now))
    }

    /// Whether a login from this address has failed recently.
    mutating func hasFailed(_ address: String, now: UInt64) -> Bool {
        addresses.isKnown(AddressBlock.of(address), now: now)
    }

    /// Records a failed login. Returns true if this failure is the first after which such logins are slowed down.
    public mutating func failed(_ address: String, _ user: String, now: UInt64) -> Bool {
        let address = AddressBlock.of(address)
        let failures = users.add(LoginThrottle.key(address, user), now: now)
        let ofAddress = failures <= LoginThrottle.free ? addresses.add(address, now: now) : 0
        return failures == LoginThrottle.free + 1 || ofAddress == LoginThrottle.freeOfAddress + 1
    }

    /// Records a successful login.
    public mutating func succeeded(_ address: String, _ user: String) {
        let address = AddressBlock.of(address)
        let failures = users.remove(LoginThrottle.key(address, user))
        addresses.forgive(address, Swift.min(failures, LoginThrottle.free))
    }

    private static func key(_ network: String, _ user: String) -> String { "\(network) \(user)" }
}

/// Failure counts by key.
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

    /// Returns the new number of failures.
    mutating func add(_ key: String, now: UInt64) -> Int {
        if entries[key] == nil, entries.count >= capacity { removeOldest() }
        var entry = entries[key] ?? Entry(count: 0, last: now)
        entry.count = Swift.min(entry.count + 1, 1000)
        entry.last = now
        entries[key] = entry
        return entry.count
    }

    /// Returns the number of failures that `key` had.
    mutating func remove(_ key: String) -> Int { entries.removeValue(forKey: key)?.count ?? 0 }

    mutating func forgive(_ key: String, _ count: Int) {
        guard count > 0, var entry = entries[key] else { return }
        entry.count -= count
        entries[key] = entry.count > 0 ? entry : nil
    }

    /// Forgets an eighth at a time, so that a flood of failures does not sort all entries for each one.
    private mutating func removeOldest() {
        let oldest = entries.sorted { ($0.value.last, $0.key) < ($1.value.last, $1.key) }
        for (key, _) in oldest.prefix(Swift.max(1, capacity / 8)) { entries[key] = nil }
    }
}
