// CommitLine: messages of a topic that are appended and not yet committed, and the publishers that wait for that.
//
//      committed            handedOver              log.end
//  seen    |  with the store    |  new in this input   |
//
// A topic in memory has none: its messages are committed as they are appended. Where a store keeps them, the driver
// gives them to it and reports what it has, in `Shard.committed`. Until then nobody sees them, no publisher is told of
// them, and nothing gives them up; to publishers the store is a `block` subscription that waits for all of them.

import Replay

struct CommitLine {
    /// Who waits for the message with that sequence to be committed.
    typealias Waiting = (sequence: SequenceNumber, who: Publisher)
    enum Publisher {
        /// Up to this message of the channel, which are `count` more than before.
        case channel(Channel, count: Int)
        case single(StreamKey)
    }

    /// Messages before this are visible and acknowledged.
    private(set) var committed: SequenceNumber
    /// Messages before this were given to the store.
    private var handedOver: SequenceNumber
    private var waiting = TurnQueue<Waiting>()

    init(end: SequenceNumber) {
        committed = end
        handedOver = end
    }

    mutating func add(_ channel: Channel, _ count: Int, upTo sequence: SequenceNumber) {
        channel.uncommitted += count
        waiting.append((sequence, .channel(channel, count: count)))
    }

    mutating func add(_ key: StreamKey, at sequence: SequenceNumber) { waiting.append((sequence, .single(key))) }

    /// What is new in the log and for the store; nil if nothing is.
    mutating func takeNew(of log: Log, epoch: UInt64) -> AppendedMessages? {
        guard handedOver < log.end else { return nil }
        defer { handedOver = log.end }
        return AppendedMessages(
            topic: epoch, first: handedOver, end: log.end, pieces: log.pieces(from: handedOver, upTo: log.end))
    }

    /// The store has the messages before `end`. Returns false if that is nothing new.
    mutating func commit(upTo end: SequenceNumber) -> Bool {
        let end = Swift.min(end, handedOver)
        guard end > committed else { return false }
        committed = end
        return true
    }

    /// Publishers whose messages are committed now, in the order of the messages.
    mutating func takeCommitted() -> [Waiting] {
        var taken: [Waiting] = []
        while let next = waiting.first, next.sequence < committed {
            taken.append(next)
            waiting.popFirst()
        }
        return taken
    }
}
