// LoginThrottle: logins that fail are slowed down, by the address they come from. A few may fail at once; from then on
// each failure doubles the time until the next login from there is looked at.
//
//     failures of an address:  1 … 5      6       7     …   12 and more
//     next login after:        at once    0.5 s   1 s   …   32 s
//
// An address is forgotten when nothing failed for ten minutes, or its login succeeded. An IPv6 address counts with all
// of its /64, which one customer has to itself.

import Core

/// Belongs to one thread. No clock of its own: times are nanoseconds of one that never steps back.
public struct LoginThrottle {
    /// Addresses that are remembered. When they are more, the one that failed longest ago is forgotten.
    public static let capacity = 4096
    /// Logins that may fail before any is slowed.
    public static let free = 5
    static let firstDelay: UInt64 = 500_000_000
    static let longestDelay: UInt64 = 32_000_000_000
    static let memory: UInt64 = 600_000_000_000

    private struct Entry {
        var failures: Int
        var last: UInt64
    }

    private var entries: [String: Entry] = [:]
    private let capacity: Int

    public init(capacity: Int = LoginThrottle.capacity) { self.capacity = capacity }

    /// Addresses that are remembered now.
    var count: Int { entries.count }

    /// Nanoseconds until a login from `address` is looked at; 0 is now.
    public mutating func delay(_ address: String, now: UInt64) -> UInt64 {
        let key = AddressBlock.of(address)
        guard let entry = entries[key] else { return 0 }
        let since = now - Swift.min(now, entry.last)
        guard since < LoginThrottle.memory else {
            entries[key] = nil
            return 0
        }
        guard entry.failures > LoginThrottle.free else { return 0 }
        let doublings = Swift.min(entry.failures - LoginThrottle.free - 1, 30)
        let delay = Swift.min(LoginThrottle.firstDelay << UInt64(doublings), LoginThrottle.longestDelay)
        return since < delay ? delay - since : 0
    }

    /// A login failed. True: from now on those from there are slowed down.
    public mutating func failed(_ address: String, now: UInt64) -> Bool {
        let key = AddressBlock.of(address)
        if entries[key] == nil, entries.count >= capacity { forgetOldest() }
        var entry = entries[key] ?? Entry(failures: 0, last: now)
        entry.failures = Swift.min(entry.failures + 1, 1000)
        entry.last = now
        entries[key] = entry
        return entry.failures == LoginThrottle.free + 1
    }

    /// A login succeeded.
    public mutating func succeeded(_ address: String) { entries[AddressBlock.of(address)] = nil }

    /// An eighth at a time, so that a flood of addresses does not have all of them gone over for each.
    private mutating func forgetOldest() {
        let oldest = entries.sorted { ($0.value.last, $0.key) < ($1.value.last, $1.key) }
        for (key, _) in oldest.prefix(Swift.max(1, capacity / 8)) { entries[key] = nil }
    }
}
