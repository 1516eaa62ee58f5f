// Outbox: the messages of this node that one shared topic's stream does not have yet.
//
//     waiting ──sent──▶ in flight ──acknowledged──▶ in flight, sequence known ──read from the stream──▶ gone
//                           └── refused, or no answer for too long ──▶ refused
//
// A message is sent again, with the same id, until it is acknowledged; JetStream ignores what it already has. Messages
// of a chain are sent one at a time, because JetStream may lose one and take the next.

import Core
import Replay

struct Outbox {
    struct Message {
        var publish: SharedPublish
        /// When it was handed over, and when it was last sent; 0 if it has not been sent on this connection.
        var since: UInt64
        var sentAt: UInt64 = 0
        /// Whether it was ever sent.
        var wasSent = false
        /// Where it is in the stream, according to JetStream's acknowledgement.
        var sequence: SequenceNumber?
    }

    private var messages: [PublishTicket: Message] = [:]
    /// Messages to send, in order; some may be gone.
    private var ready: [PublishTicket] = []
    private var readyHead = 0
    /// The messages that wait behind the first one of their chain.
    private var behind: [PublishTicket: TurnQueue<PublishTicket>] = [:]

    var isEmpty: Bool { messages.isEmpty }
    var count: Int { messages.count }

    mutating func add(_ publish: SharedPublish, now: UInt64) {
        messages[publish.ticket] = Message(publish: publish, since: now)
        guard let chain = publish.chain else { return ready.append(publish.ticket) }
        if behind[chain] == nil {
            behind[chain] = TurnQueue()
            ready.append(publish.ticket)
        } else {
            behind[chain]?.append(publish.ticket)
        }
    }

    /// The next message to send; it stays the next one until `sent`.
    mutating func nextReady() -> Message? {
        while readyHead < ready.count {
            if let message = messages[ready[readyHead]] { return message }
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
    }

    mutating func acknowledged(_ ticket: PublishTicket, at sequence: SequenceNumber) {
        messages[ticket]?.sequence = sequence
    }

    /// The message is in the stream, or is refused alone. Returns whether it was known.
    @discardableResult
    mutating func remove(_ ticket: PublishTicket) -> Bool {
        guard let message = messages.removeValue(forKey: ticket) else { return false }
        guard let chain = message.publish.chain else { return true }
        if let next = behind[chain]?.popFirst() {
            ready.append(next)
        } else {
            behind[chain] = nil
        }
        return true
    }

    /// Removes a message and, because it is refused, those that follow it in its chain. Returns them in order.
    mutating func refuse(_ ticket: PublishTicket) -> [PublishTicket] {
        guard let message = messages.removeValue(forKey: ticket) else { return [] }
        guard let chain = message.publish.chain else { return [ticket] }
        var refused = [ticket]
        var others = behind.removeValue(forKey: chain)
        while let other = others?.popFirst() {
            messages[other] = nil
            refused.append(other)
        }
        return refused
    }

    /// Removes everything, in order.
    mutating func removeAll() -> [PublishTicket] {
        defer { self = Outbox() }
        return messages.keys.sorted { $0.value < $1.value }
    }

    /// Makes messages ready again that were sent before `time` and not acknowledged.
    mutating func resend(sentBefore time: UInt64) {
        let late = messages.values.filter { $0.wasSent && $0.sequence == nil && $0.sentAt < time }
        guard !late.isEmpty else { return }
        let tickets = late.map(\.publish.ticket).sorted { $0.value < $1.value }
        for ticket in tickets { messages[ticket]?.sentAt = .max }
        ready = tickets + ready[readyHead...]
        readyHead = 0
    }

    /// Messages that were handed over before `time`.
    func overdue(since time: UInt64) -> [Message] { messages.values.filter { $0.since < time } }
}
