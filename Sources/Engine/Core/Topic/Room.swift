// Room: how many messages a topic's publishers may append before a `block` subscription is full, or before the topic's
// log passes its byte limit; and the grants made out of it.
//
// Without a `block` subscription there is always room: the head of the log goes. A grant reserves room for a second:
// until then nobody else can use it. What is granted stays valid after that, so late use may overshoot, by the
// outstanding grants at most.

import Replay

/// One publishing channel as its topic's owner sees it.
final class Channel {
    let key: StreamKey
    /// Held until the channel is removed from it.
    let topic: Topic
    let options: PublishOptions
    let connection: ConnectionID
    /// Granted and not yet used.
    var outstanding = 0
    /// The part of `outstanding` that room is reserved for, until `reservedUntil`; one more with a first message that
    /// is yet to come.
    var reserved = 0
    var reservedUntil: UInt64 = 0
    var accepted: UInt64 = 0
    /// In the log and not yet committed.
    var uncommitted = 0
    /// Why it has ended, told once everything of it is committed.
    var refusal: Refusal?
    var last = SequenceNumber(0)
    /// Accepted since the last acknowledgement was told.
    var hasNews = false
    /// Its topic has removed it.
    var isRemoved = false
    /// Its place in the list of its topic.
    var place = -1
    /// It is in line for credit, in which of the topic's two queues.
    var line = Line.none
    var ticket: TurnQueue<Channel>.Ticket?
    /// Its place among the topic's reservations.
    var reservation: TurnQueue<Reservations.Entry>.Ticket?
    /// The first message waits for room.
    var isParked = false
    /// Opened without a message: the first one needs no credit, and waits for room as one that opens a channel does.
    var awaitsFirst = false
    /// The publisher's half is complete; the channel ends when nothing of it is parked.
    var isComplete = false

    enum Line { case none, starved, low }

    init(key: StreamKey, topic: Topic, options: PublishOptions, connection: ConnectionID) {
        self.key = key
        self.topic = topic
        self.options = options
        self.connection = connection
    }
}

struct Room {
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
}

extension Topic {
    /// Room that is neither used nor reserved.
    var freeRoom: Int { room.messages(log: log, byteLimit: retention.bytes) }

    /// Whether a message needs no room that somebody reserved or waits for.
    func hasPlace(_ charge: Int) -> Bool { parked.isEmpty && freeRoom > 0 && bytesFit(charge) }

    /// Whether a message goes beyond what late use of grants may add to the byte limit.
    func isFarBeyond(_ charge: Int) -> Bool { room.held(log).map { $0 + charge > 2 * retention.bytes } ?? false }

    /// Whether a message fits between what cannot be evicted and the byte limit.
    func bytesFit(_ charge: Int) -> Bool {
        guard let held = room.held(log) else { return true }
        return held + charge <= retention.bytes
    }
}
