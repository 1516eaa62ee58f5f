// SharedLog: what the owner of a shared topic knows in addition to its messages: whether this node follows the topic,
// who waits for that, and the messages of this node that are not in the topic's stream yet.
//
//     joining ──the messages up to now were reported──▶ current
//
// A message gets its sequence from JetStream. Until it is read from the stream, a ticket takes the sequence's place.

import Replay

final class SharedLog {
    let use: TopicUse
    /// Whether subscriptions may begin.
    private(set) var isCurrent = false
    /// The shards to attach once subscriptions may begin, and whether some wait there.
    private var attaching: [Int: Bool] = [:]
    private var unconfirmed: [SequenceNumber: (who: CommitLine.Waiter?, charge: Int)] = [:]
    /// Bytes of the messages that are not in the stream yet.
    private(set) var unconfirmedBytes = 0

    var isAwaited: Bool { attaching.values.contains(true) || !unconfirmed.isEmpty }

    init(_ use: TopicUse) { self.use = use }

    func attach(_ shard: Int) { attaching[shard] = true }

    /// Whether subscriptions still wait on a shard, if they did.
    func note(isAwaited: Bool, by shard: Int) { if attaching[shard] != nil { attaching[shard] = isAwaited } }

    /// Subscriptions may begin. Returns the shards to attach.
    func becomeCurrent() -> [Int] {
        isCurrent = true
        return takeAttaching()
    }

    /// The shards that were to be attached.
    func takeAttaching() -> [Int] {
        defer { attaching = [:] }
        return Array(attaching.keys)
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
