// CommitLine: the appended but uncommitted messages of a topic, and the publishers that wait for them to be committed.
//
//      committed            handedOver              log.end
//  seen    |  sent to the store |  new in this input   |
//
// A topic in memory has no commit line: its messages are committed as they are appended. If a store keeps the topic,
// the driver passes new messages to the store and reports progress with `Shard.committed`. Until then messages are
// neither visible nor acknowledged, and are not dropped. To publishers, the store is like a `block` subscription that
// waits for all messages.

import Replay

struct CommitLine {
    /// A publisher that waits for the message with this sequence to be committed.
    typealias Waiting = (sequence: SequenceNumber, who: Publisher)
    enum Publisher {
        /// Messages of the channel up to this one, `count` more than before.
        case channel(Channel, count: Int)
        case single(StreamKey)
        /// `count` duplicates on the channel.
        case duplicates(Channel, count: Int)
        case duplicate(StreamKey, of: KnownPublisher)
    }

    /// Messages before this are visible and acknowledged.
    private(set) var committed: SequenceNumber
    /// Messages before this were handed to the store.
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

    // Duplicates wait for their publisher's last message, and for what already waits.

    mutating func add(duplicates count: Int, of publisher: KnownPublisher, on channel: Channel) {
        channel.uncommitted += count
        waiting.append((publisher.last.sequence, .duplicates(channel, count: count)))
    }

    mutating func add(duplicateOf publisher: KnownPublisher, _ key: StreamKey) {
        waiting.append((publisher.last.sequence, .duplicate(key, of: publisher)))
    }

    /// New messages in the log, for the store; nil if there are none.
    mutating func takeNew(of log: Log, epoch: UInt64) -> AppendedMessages? {
        guard handedOver < log.end else { return nil }
        defer { handedOver = log.end }
        return AppendedMessages(
            topic: epoch, first: handedOver, end: log.end, pieces: log.pieces(from: handedOver, upTo: log.end))
    }

    /// The store has committed the messages before `end`. Returns false if that was already known.
    mutating func commit(upTo end: SequenceNumber) -> Bool {
        let end = Swift.min(end, handedOver)
        guard end > committed else { return false }
        committed = end
        return true
    }

    /// Publishers whose messages are committed now, in the order of these messages.
    mutating func takeCommitted() -> [Waiting] {
        var taken: [Waiting] = []
        while let next = waiting.first, next.sequence < committed {
            taken.append(next)
            waiting.popFirst()
        }
        return taken
    }
}
