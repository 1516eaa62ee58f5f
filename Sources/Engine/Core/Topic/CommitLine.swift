// CommitLine: the messages of a topic that its store has not written yet, and what waits for that.
//
//      written             handedOver              log.end
//         |  sent to the store |  new in this input   |
//
// A topic in memory has no commit line: its messages are committed as they are appended. If a store keeps the topic,
// the driver passes new messages to the store and reports progress with `Shard.stored`. Until then the messages of a
// durable topic are neither visible nor acknowledged, and are not dropped. To publishers, the store is like a `block`
// subscription that waits for all messages. The messages of a relaxed topic do not wait; the store limits only how far
// publishers may be ahead of it.

import Replay

struct CommitLine {
    /// What waits for the message with this sequence, or for the topic's end, which has the sequence after its last
    /// message.
    typealias Waiting = (sequence: SequenceNumber, who: Waiter)
    enum Waiter {
        /// Messages of the channel up to this one, `count` more than before.
        case channel(Channel, count: Int)
        case single(StreamKey)
        /// A channel that ended the topic.
        case finished(StreamKey)
        /// A control call that ended the topic, and its answer.
        case call(ReplyTarget, Description)
        /// `count` duplicates on the channel.
        case duplicates(Channel, count: Int)
        case duplicate(StreamKey, of: KnownPublisher)
    }

    /// Messages before this are on disk.
    private(set) var written: SequenceNumber
    /// Messages before this were handed to the store.
    private var handedOver: SequenceNumber
    /// How often messages have been withdrawn.
    private(set) var attempt: UInt32 = 0
    private var waiting = TurnQueue<Waiting>()

    init(end: SequenceNumber) {
        written = end
        handedOver = end
    }

    /// How often the store was asked to note an end of the topic, and how often it has: a topic that has ended may then
    /// be deleted.
    private var ends = (requested: 0, written: 0)
    /// How many of these requests have to be repeated.
    private(set) var refusedEnds = 0
    /// Whether the store has noted the topic's end.
    var isEndWritten: Bool { ends.requested > 0 && ends.written == ends.requested }

    /// Makes `who` wait for the message with that sequence, or for the topic's end. Duplicates wait for their
    /// publisher's last message, and for what already waits.
    mutating func add(_ who: Waiter, at sequence: SequenceNumber) {
        who.note()
        waiting.append((sequence, who))
    }

    /// New messages in the log, for the store; nil if there are none.
    mutating func takeNew(of log: Log, _ stored: StoredLog, epoch: UInt64) -> AppendedMessages? {
        guard handedOver < log.end else { return nil }
        defer { handedOver = log.end }
        return AppendedMessages(
            id: stored.id, topic: epoch, attempt: attempt, isAwaited: !stored.isRelaxed, first: handedOver,
            end: log.end,
            pieces: log.pieces(from: handedOver, upTo: log.end))
    }

    /// The store has written the messages before `end`. Returns false if that was already known.
    mutating func commit(upTo end: SequenceNumber) -> Bool {
        let end = Swift.min(end, handedOver)
        guard end > written else { return false }
        written = end
        return true
    }

    /// The store is asked to note the topic's end, or its deletion.
    mutating func requestEnd() { ends.requested += 1 }

    /// The end need not be noted, or the store has it from an earlier run.
    mutating func restoreEnd() { ends = (1, 1) }

    /// The store has noted one of them.
    mutating func noteEnd() { ends.written += 1 }

    /// The store did not note one of them.
    mutating func refuseEnd() { refusedEnds += 1 }

    /// The requests to repeat, once.
    mutating func takeRefusedEnds() -> Int {
        defer { refusedEnds = 0 }
        return refusedEnds
    }

    /// What need not wait any longer, in the order of the messages.
    mutating func takeCommitted() -> [Waiting] { takeWaiting(before: isEndWritten ? nil : written) }

    /// The messages that wait, because the store has refused them; and what waits for the topic's end, if that was
    /// refused too.
    mutating func takeRefused(includingEnd: Bool) -> [Waiting] {
        let all = takeWaiting(before: nil)
        if includingEnd { return all }
        for each in all where each.who.isForEnd { waiting.append(each) }
        return all.filter { !$0.who.isForEnd }
    }

    /// Whether messages have to be handed to the store.
    func hasNew(in log: Log) -> Bool { handedOver < log.end }

    /// Messages from `written` on have been removed from the log, or have to be handed over again.
    mutating func withdraw() {
        handedOver = written
        attempt &+= 1
    }

    /// - Parameter end: nil takes everything.
    private mutating func takeWaiting(before end: SequenceNumber?) -> [Waiting] {
        var taken: [Waiting] = []
        while let next = waiting.first, end.map({ next.sequence < $0 }) ?? true {
            taken.append(next)
            waiting.popFirst()
        }
        return taken
    }
}

extension CommitLine.Waiter {
    /// Notes that it waits.
    func note() {
        switch self {
        case .channel(let channel, let count), .duplicates(let channel, let count): channel.uncommitted += count
        case .single, .duplicate, .finished, .call: break
        }
    }

    fileprivate var isForEnd: Bool {
        switch self {
        case .channel, .single, .duplicates, .duplicate: false
        case .finished, .call: true
        }
    }
}
