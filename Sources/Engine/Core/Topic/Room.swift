// Room: how many messages a topic's publishers may append before a `block` subscription is full, or before the topic's
// log passes its byte limit; and the grants made out of it.
//
// Without a `block` subscription there is always room: the head of the log goes. A grant reserves room for a second:
// until then nobody else can use it. What is granted stays valid after that, so late use may overshoot, by the
// outstanding grants at most.

import Replay

struct Room {
    /// What `block` subscriptions allow: the smallest horizon. Nil when there is none.
    private(set) var horizon: SequenceNumber?
    /// From here on, nothing can be evicted to make room: a `block` subscription waits for it. Nil when there is none.
    private(set) var floor: SequenceNumber?
    /// What the topic had been charged before `floor`, so that nothing has to be looked up for each message.
    private var chargedBeforeFloor: UInt64 = 0
    /// Reserved by unexpired grants.
    private(set) var reserved = 0
    /// Channels that want credit.
    var line = CreditLine()
    private var reservations = Reservations()
    /// A recent message's charge in bytes, smoothed; what a grant is expected to bring.
    private(set) var typical = 1024

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
    func messages(log: Log, byteLimit: Int) -> Int {
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

    // Grants

    /// Grants a channel that wants credit up to its share.
    /// - Parameters:
    ///   - share: messages that each channel may have now.
    ///   - most: messages that one channel may have at any time.
    ///   - free: messages that there is room for.
    /// - Returns: the credit, and the room that it takes; nil if the channel has its share. It is in line again when
    ///   it uses some of it.
    mutating func grant(
        to channel: Channel, share: Int, most: Int, free: Int, now: UInt64
    ) -> (credit: Int, room: Int)? {
        // What was granted earlier and lost its reservation counts against the share: an idle channel gathers none.
        let target = Swift.min(most, share + channel.reserved)
        let count = Swift.min(target - Swift.max(channel.outstanding, channel.reserved), free)
        guard count > 0 else { return nil }
        // A first message that is yet to come spends no credit, but takes room. One alone is granted all the same, as
        // a publisher that waits for credit before the first message would wait for ever.
        let isFirst = channel.first == .awaited && channel.reserved <= channel.outstanding && horizon != nil
        let credit = isFirst && count > 1 ? count - 1 : count
        channel.outstanding += credit
        channel.reserved += count
        channel.reservedUntil = now + Limits.grantReservation
        reservations.note(channel)
        reserved += count
        line.update(channel)
        return (credit, count)
    }

    /// Messages came that were granted.
    mutating func spend(_ count: Int, of channel: Channel) {
        assert(count <= channel.outstanding)
        channel.outstanding -= count
        release(count, of: channel)
        if channel.outstanding <= line.threshold { line.update(channel) }
    }

    /// Room that a channel had reserved is used, or free again.
    mutating func release(_ count: Int, of channel: Channel) {
        let given = Swift.min(channel.reserved, count)
        channel.reserved -= given
        reserved -= given
        assert(reserved >= 0)
    }

    /// When the first reservation may end, on the monotonic clock; nil if there is none.
    var deadline: UInt64? { reservations.deadline }

    /// Returns false if none has ended.
    mutating func endReservation(now: UInt64) -> Bool {
        guard let channel = reservations.takeEnded(now: now) else { return false }
        release(channel.reserved, of: channel)
        return true
    }

    /// A channel is removed from its topic.
    mutating func withdraw(_ channel: Channel) {
        assert(channel.isRemoved)
        line.update(channel)
        reservations.withdraw(channel)
        release(channel.reserved, of: channel)
    }
}
