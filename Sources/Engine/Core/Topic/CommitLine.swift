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
    /// Who waits for a message to be committed.
    private enum Waiting {
        /// Up to this message of the channel, which are `count` more than before.
        case channel(Channel, count: Int)
        case single(StreamKey)
    }

    /// Messages before this are visible and acknowledged.
    private(set) var committed: SequenceNumber
    /// Messages before this were given to the store.
    private var handedOver: SequenceNumber
    private var waiting = TurnQueue<(sequence: SequenceNumber, who: Waiting)>()

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

    /// Calls one of the two for each publisher whose messages are committed now, in the order of the messages.
    mutating func takeCommitted(
        channel: (Channel, _ count: Int, _ last: SequenceNumber) -> Void,
        single: (StreamKey, SequenceNumber) -> Void
    ) {
        while let (sequence, who) = waiting.first, sequence < committed {
            waiting.popFirst()
            switch who {
            case .channel(let one, let count):
                one.uncommitted -= count
                channel(one, count, sequence)
            case .single(let key): single(key, sequence)
            }
        }
    }
}

extension Topic {
    /// Messages before this are visible to subscribers and acknowledged to publishers.
    var committed: SequenceNumber { commits?.committed ?? log.end }
    var isCommitted: Bool { committed == log.end }
    /// The topic has ended, and subscribers may be told: all its messages are committed.
    var isOver: Bool { !state.isLive && isCommitted }
    /// As subscribers may be told.
    var visibleState: TopicState { isOver ? state : .live }

    func accepted(_ channel: Channel, _ count: Int = 1, upTo sequence: SequenceNumber) {
        if commits == nil { acknowledge(channel, count, upTo: sequence) }
        commits?.add(channel, count, upTo: sequence)
    }

    /// A publish that waited alone is in the log.
    func accepted(_ key: StreamKey, at sequence: SequenceNumber) {
        if commits == nil { acknowledge(key, at: sequence) }
        commits?.add(key, at: sequence)
    }

    private func acknowledge(_ channel: Channel, _ count: Int, upTo sequence: SequenceNumber) {
        channel.accepted += UInt64(count)
        channel.last = sequence
        guard !channel.hasNews else { return }
        channel.hasNews = true
        news.append(channel)
    }

    private func acknowledge(_ key: StreamKey, at sequence: SequenceNumber) {
        ownership.notices.tell(key, .acknowledged(sequence: sequence, epoch: epoch, accepted: 1))
    }

    /// The store has the messages before `end`.
    func commit(upTo end: SequenceNumber, now: Instant) {
        guard commits?.commit(upTo: end) == true else { return }
        var committed: [Channel] = []
        commits?.takeCommitted { channel, count, last in
            acknowledge(channel, count, upTo: last)
            if channel.uncommitted == 0 { committed.append(channel) }
        } single: {
            acknowledge($0, at: $1)
        }
        for channel in committed { settle(channel, now: now) }
        updateRoom()
        markDirty()
        noteUse(now)
        guard isOver else { return }
        if let refusal = refusal(charge: 0) { refusePublishers(refusal) }
        ownership.forgetIfUnused(self)
    }

    /// All of a channel is committed: what waited for that is due.
    private func settle(_ channel: Channel, now: Instant) {
        if let refusal = channel.refusal {
            channel.refusal = nil
            tellNews(channel)
            ownership.notices.tell(channel.key, .refused(refusal))
        } else if channel.isComplete, !channel.isParked, !channel.isRemoved {
            finish(channel, now: now)
        }
    }
}
