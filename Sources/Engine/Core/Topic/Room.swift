// Room: how many messages a topic's publishers may append before a `block` subscription is full or the topic's log
// exceeds its byte limit, and the grants made from this room.
//
// Without a `block` subscription there is always room, because the head of the log is evicted. A grant reserves room
// for a second, during which no other publisher can use it. The grant remains valid after that, so late use may exceed
// the room by at most the outstanding grants, and by one more message for each channel whose first message uses no
// credit.

import Replay

struct Room {
    /// Bytes that the topic's log may hold.
    var byteLimit: Int
    /// What `block` subscriptions allow: the smallest horizon. Nil if there are none.
    private(set) var horizon: SequenceNumber?
    /// The position from which nothing can be evicted, because a `block` subscription waits for it. Nil if there is
    /// none.
    private(set) var floor: SequenceNumber?
    /// The charge of all messages before `floor`, cached so that appending needs no look-up.
    private var chargedBeforeFloor: UInt64 = 0
    /// Bytes of messages that the topic may have which its store has not written yet; nil for a topic in memory.
    var unwrittenLimit: Int?
    /// The charge of all messages that the store has written.
    var chargedBeforeUnwritten: UInt64 = 0
    /// Room reserved by unexpired grants.
    var reserved = 0
    /// The smoothed charge of recent messages in bytes, which is what granted messages are expected to be charged.
    private(set) var typical = 1024

    init(byteLimit: Int) { self.byteLimit = byteLimit }

    /// Updates the needs of the `block` subscriptions of all views.
    /// - Parameter chargedBeforeFloor: the charge of all messages before `floor`.
    mutating func update(horizon: SequenceNumber?, floor: SequenceNumber?, chargedBeforeFloor: UInt64) {
        self.horizon = horizon
        self.floor = floor
        self.chargedBeforeFloor = chargedBeforeFloor
    }

    /// Bytes that cannot be evicted; nil if everything can.
    func held(_ log: Log) -> Int? {
        floor == nil ? nil : Int(log.charged - chargedBeforeFloor)
    }

    /// Whether the store has not written so much that there is no room for a message.
    func isUnwrittenFull(_ log: Log) -> Bool { unwrittenRoom(log) <= 0 }

    /// Messages that the store's progress leaves room for.
    private func unwrittenRoom(_ log: Log) -> Int {
        guard let unwrittenLimit else { return Int.max }
        let unwritten = Int(truncatingIfNeeded: log.charged &- chargedBeforeUnwritten)
        return (unwrittenLimit - unwritten) / Swift.max(1, Swift.min(typical, unwrittenLimit))
    }

    /// Messages that may still be appended without touching reservations.
    func messages(log: Log) -> Int {
        guard let horizon, let held = held(log) else {
            return unwrittenLimit == nil ? Int.max : Swift.max(0, unwrittenRoom(log) - reserved)
        }
        // A message larger than the limit is refused, so the limit itself is room for one.
        let fitting = Swift.min((byteLimit - held) / Swift.min(typical, byteLimit), unwrittenRoom(log))
        return Swift.max(0, Swift.min(horizon - log.end, fitting) - reserved)
    }

    mutating func observe(charge: Int) {
        // Larger messages count at once, smaller ones gradually: too small a grant costs a round trip, too large a
        // grant memory.
        typical = charge > typical ? charge : Swift.max(Limits.messageOverhead, typical - (typical - charge) / 8)
    }

    /// Observes `count` messages that were charged `charge` bytes together, the largest of them `largest`.
    mutating func observe(charge: Int, count: Int, largest: Int) {
        let average = charge / count
        // After this many messages, earlier ones no longer matter.
        for _ in 0..<Swift.min(count, 64) {
            guard typical > average else { break }
            observe(charge: average)
        }
        if largest > typical { typical = largest }
    }

    /// The most that one channel is granted at a time.
    func largestGrant(messages: Int, bytes: Int) -> Int {
        Swift.max(1, Swift.min(messages, bytes / typical))
    }
}
