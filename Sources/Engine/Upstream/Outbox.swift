// Outbox: the messages of this node that one shared topic's stream does not have yet.
//
//     waiting ──sent──▶ in flight ──acknowledged──▶ in flight, sequence known ──read from the stream──▶ gone
//      │   ▲                │
//      ▼   └────────────────┼── not acknowledged in time
//     held, until the last  └── refused, or no answer for too long ──▶ refused
//     number is known
//
// A message is sent again, with the same id, until it is acknowledged; JetStream ignores what it already has. Messages
// of a chain are sent one at a time, because JetStream may lose one and take the next.

import Core
import Replay

struct Outbox {
    /// Messages that are sent one after the other.
    enum Chain: Hashable {
        case channel(PublishTicket)
        case publisher([UInt8])
    }

    struct Message {
        let publish: SharedPublish
        /// When it was handed over, or became the first of its chain, and when it was last sent; 0 if it has not been
        /// sent on this connection.
        fileprivate(set) var since: UInt64
        var sentAt: UInt64 = 0
        /// Whether it was ever sent.
        var wasSent = false
        /// Where it is in the stream, according to JetStream's acknowledgement.
        var sequence: SequenceNumber?

        var chain: Chain? { publish.publisher.map { .publisher($0) } ?? publish.chain.map { .channel($0) } }
    }

    private var messages: [PublishTicket: Message] = [:]
    /// Messages to send, in order; some may be gone.
    private var ready: [PublishTicket] = []
    private var readyHead = 0
    /// The messages that wait behind the first one of their chain.
    private var behind: [Chain: TurnQueue<PublishTicket>] = [:]
    /// Messages that wait for nothing but JetStream, in the order of their `since`, and those in flight in the order in
    /// which they were sent; some may be gone, or sent again.
    private var line = TurnQueue<PublishTicket>()
    private var inFlight = TurnQueue<(ticket: PublishTicket, sentAt: UInt64)>()

    var isEmpty: Bool { messages.isEmpty }
    var count: Int { messages.count }
    subscript(ticket: PublishTicket) -> Message? { messages[ticket] }

    /// - Parameter wasSent: whether it was ever sent.
    mutating func add(_ publish: SharedPublish, now: UInt64, wasSent: Bool = false) {
        let message = Message(publish: publish, since: now, wasSent: wasSent)
        messages[publish.ticket] = message
        guard let chain = message.chain else { return begin(publish.ticket, now: now) }
        if behind[chain] == nil {
            behind[chain] = TurnQueue()
            begin(publish.ticket, now: now)
        } else {
            behind[chain]?.append(publish.ticket)
        }
    }

    private mutating func begin(_ ticket: PublishTicket, now: UInt64) {
        messages[ticket]?.since = now
        line.append(ticket)
        ready.append(ticket)
    }

    /// The next message to send; it stays the next one until `sent` or `hold`.
    mutating func nextReady() -> Message? {
        while readyHead < ready.count {
            if let message = messages[ready[readyHead]], message.sequence == nil { return message }
            readyHead += 1
        }
        ready.removeAll(keepingCapacity: true)
        readyHead = 0
        return nil
    }

    mutating func sent(_ ticket: PublishTicket, now: UInt64) {
        readyHead += 1
        messages[ticket]?.sentAt = now
        messages[ticket]?.wasSent = true
        inFlight.append((ticket, now))
    }

    /// The next message waits until `release`.
    mutating func hold() { readyHead += 1 }

    /// A message that was held, or refused because of its number, may be sent.
    mutating func release(_ ticket: PublishTicket) {
        guard messages[ticket] != nil else { return }
        messages[ticket]?.sentAt = .max
        ready.append(ticket)
    }

    mutating func acknowledged(_ ticket: PublishTicket, at sequence: SequenceNumber) {
        messages[ticket]?.sequence = sequence
    }

    /// The messages that are in the stream before `sequence`, according to acknowledgements, in order.
    func tickets(before sequence: SequenceNumber) -> [PublishTicket] {
        messages.filter { $0.value.sequence.map { $0 < sequence } ?? false }.keys.sorted { $0.value < $1.value }
    }

    /// The message is in the stream, or is refused alone. Returns it, if it was known.
    @discardableResult
    mutating func remove(_ ticket: PublishTicket, now: UInt64) -> Message? {
        guard let message = messages.removeValue(forKey: ticket) else { return nil }
        guard let chain = message.chain else { return message }
        if let next = behind[chain]?.popFirst() {
            begin(next, now: now)
        } else {
            behind[chain] = nil
        }
        return message
    }

    /// Removes a message and, because it is refused, those that follow it in its channel. Returns them in order. What
    /// follows a numbered message is judged by its own number.
    mutating func refuse(_ ticket: PublishTicket, now: UInt64) -> [PublishTicket] {
        guard let message = messages[ticket] else { return [] }
        guard let chain = message.chain, case .channel = chain else {
            remove(ticket, now: now)
            return [ticket]
        }
        return refuseChain(ticket)
    }

    /// Removes a message and all that follow it in its chain. Returns them in order.
    mutating func refuseChain(_ ticket: PublishTicket) -> [PublishTicket] {
        guard let message = messages[ticket] else { return [] }
        guard let chain = message.chain else {
            messages[ticket] = nil
            return [ticket]
        }
        messages[ticket] = nil
        var refused = [ticket]
        var others = behind.removeValue(forKey: chain)
        while let other = others?.popFirst() {
            messages[other] = nil
            refused.append(other)
        }
        return refused
    }

    /// Removes everything, in order.
    mutating func removeAllMessages() -> [Message] {
        defer { self = Outbox() }
        return messages.values.sorted { $0.publish.ticket.value < $1.publish.ticket.value }
    }

    /// Makes messages ready again that were sent before `time` and not acknowledged.
    mutating func resend(sentBefore time: UInt64) {
        var late: [PublishTicket] = []
        while let next = inFlight.first, next.sentAt < time {
            inFlight.popFirst()
            guard let message = messages[next.ticket], message.sequence == nil, message.sentAt == next.sentAt else {
                continue
            }
            messages[next.ticket]?.sentAt = .max
            late.append(next.ticket)
        }
        guard !late.isEmpty else { return }
        ready = late + ready[readyHead...]
        readyHead = 0
    }

    /// The oldest message; nil if there is none.
    mutating func oldest() -> Message? {
        while let first = line.first {
            if let message = messages[first] { return message }
            line.popFirst()
        }
        return nil
    }

    /// The oldest message, if it was handed over before `time`.
    mutating func overdue(since time: UInt64) -> Message? { oldest().flatMap { $0.since < time ? $0 : nil } }
}
