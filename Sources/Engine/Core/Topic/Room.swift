// Room: how many messages a topic's publishers may append before a `block` subscription is full, or before the topic's
// log passes its byte limit; and the grants made out of it.
//
// Without a `block` subscription there is always room: the head of the log goes. A grant reserves room for a second:
// until then nobody else can use it. What is granted stays valid after that, so late use may overshoot, by the
// outstanding grants at most.

import Replay

struct Room {
    /// Bytes that the topic's log may hold.
    var byteLimit: Int
    /// What `block` subscriptions allow: the smallest horizon. Nil when there is none.
    private(set) var horizon: SequenceNumber?
    /// From here on, nothing can be evicted to make room: a `block` subscription waits for it. Nil when there is none.
    private(set) var floor: SequenceNumber?
    /// What the topic had been charged before `floor`, so that nothing has to be looked up for each message.
    private var chargedBeforeFloor: UInt64 = 0
    /// Reserved by unexpired grants.
    var reserved = 0
    /// A recent message's charge in bytes, smoothed; what a grant is expected to bring.
    private(set) var typical = 1024

    init(byteLimit: Int) { self.byteLimit = byteLimit }

    /// What `block` subscriptions of all views need now.
    mutating func update(horizon: SequenceNumber?, floor: SequenceNumber?, log: Log) {
        self.horizon = horizon
        self.floor = floor
        chargedBeforeFloor = floor.map { log.charged - UInt64(log.bytes(from: $0)) } ?? 0
    }

    /// Bytes that cannot be evicted; nil when all can.
    func held(_ log: Log) -> Int? {
        floor == nil ? nil : Int(log.charged - chargedBeforeFloor)
    }

    /// Messages that may still be appended, with nobody's reservation touched.
    func messages(log: Log) -> Int {
        guard let horizon, let held = held(log) else { return Int.max }
        // A message larger than the limit is refused, so the limit itself is room for one.
        let fitting = (byteLimit - held) / Swift.min(typical, byteLimit)
        return Swift.max(0, Swift.min(horizon - log.end, fitting) - reserved)
    }

    mutating func observe(charge: Int) {
        // Larger ones count at once, smaller ones slowly: a grant too small costs a round trip, one too large memory.
        typical = charge > typical ? charge : Swift.max(Limits.messageOverhead, typical - (typical - charge) / 8)
    }

    /// `count` messages were charged `charge` bytes together, the largest of them `largest`.
    mutating func observe(charge: Int, count: Int, largest: Int) {
        let average = charge / count
        // After this many, what was before has left no trace.
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
