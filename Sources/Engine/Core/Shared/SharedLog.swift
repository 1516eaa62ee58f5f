// SharedLog: what the owner of a shared topic knows in addition to its messages: whether this node follows the topic,
// who waits for that, and the messages of this node that are not in the topic's stream yet.
//
//     joining ──the messages up to now were reported──▶ current
//
// A message gets its sequence from JetStream. Until it is read from the stream, a ticket takes the sequence's place.

import Replay

final class SharedLog {
    /// Whether subscriptions may begin.
    private(set) var isCurrent = false
    /// Shards with subscriptions that wait until they may begin.
    private(set) var attaching: Set<Int> = []
    private var unconfirmed: [SequenceNumber: (who: CommitLine.Waiter?, charge: Int)] = [:]
    /// Bytes of the messages that are not in the stream yet.
    private(set) var unconfirmedBytes = 0

    var isAwaited: Bool { !attaching.isEmpty || !unconfirmed.isEmpty }
    var unconfirmedCount: Int { unconfirmed.count }

    func attach(_ shard: Int) { attaching.insert(shard) }
    func detach(_ shard: Int) { attaching.remove(shard) }

    /// Subscriptions may begin. Returns the shards that wait for that.
    func becomeCurrent() -> Set<Int> {
        defer { attaching = [] }
        isCurrent = true
        return attaching
    }

    /// A message was handed to the upstream.
    func submitted(_ ticket: SequenceNumber, charge: Int) {
        unconfirmed[ticket] = (nil, charge)
        unconfirmedBytes += charge
    }

    /// Makes `who` wait for that message.
    func add(_ who: CommitLine.Waiter, for ticket: SequenceNumber) {
        who.note()
        unconfirmed[ticket]?.who = who
    }

    /// The message is in the stream, or refused. Returns who waits for it.
    func take(_ ticket: PublishTicket) -> CommitLine.Waiter? {
        guard let message = unconfirmed.removeValue(forKey: SequenceNumber(ticket.value)) else { return nil }
        unconfirmedBytes -= message.charge
        return message.who
    }
}
