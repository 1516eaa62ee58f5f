// StoredLog: what a topic knows about itself in the store, and where its messages are. The store has all of them; the
// newest are in memory, too.
//
//     kept                       log.head             written        log.end
//      |        in the store        | in the store and memory | memory only |

import Replay

struct StoredLog {
    /// Marks kept; when there are more, every second one is removed.
    private static let most = 4096

    let id: StoreID
    let isRelaxed: Bool
    /// Epochs that the topic had before, oldest first.
    private(set) var former: [FormerEpoch] = []
    /// Whether the store has been asked to keep the topic, and whether it does.
    private(set) var isKept = false
    private var isConfirmed = false
    /// The oldest message that the store must keep.
    private(set) var kept = SequenceNumber.first
    /// The end of the messages of earlier runs. Their age is not known.
    private(set) var earlierEnd = SequenceNumber.first
    /// Whether the store has been asked to delete the topic.
    var isDeletionRequested = false
    /// Whether the store searches for messages that have become too old.
    var isSearching = false
    /// A message that has left memory, and the total charge before it.
    private typealias Mark = (sequence: SequenceNumber, chargedBefore: UInt64)
    /// Marks show how many bytes the store keeps. The oldest is stored separately, because most topics have no other.
    private var oldest: Mark?
    private var marks: [Mark] = []

    /// A new topic; nil if the store does not keep it. Its first epoch identifies it in the store.
    init?(_ storage: TopicStorage, epoch: UInt64) {
        switch storage {
        case .memory, .shared: return nil
        case .durable: isRelaxed = false
        case .relaxed: isRelaxed = true
        }
        id = StoreID(epoch)
    }

    /// A topic that the store has from an earlier run.
    init(_ stored: StoredTopic) {
        id = stored.row.id
        isRelaxed = stored.row.isRelaxed
        former = stored.row.former
        isKept = true
        isConfirmed = true
        kept = stored.messages.lower
        earlierEnd = stored.messages.upper
        oldest = (kept, stored.charged.lowerBound)
        guard stored.mayHaveLost else { return }
        former = former.suffix(StoredTopicRow.mostFormer - 1)
        former.append(FormerEpoch(epoch: stored.row.epoch, end: stored.messages.upper))
        isKept = false
        isConfirmed = false
    }

    /// What views need to request messages.
    var reference: StoreReference { StoreReference(id: id, former: former) }

    /// The topic's row, if the store does not have it yet.
    /// - Parameter again: whether to return it also if it is on its way: the store may still refuse it.
    mutating func takeRow(name: String, epoch: UInt64, _ end: StoredEnd?, again: Bool) -> StoredTopicRow? {
        guard !isKept || again && !isConfirmed else { return nil }
        isKept = true
        return StoredTopicRow(id: id, name: name, epoch: epoch, isRelaxed: isRelaxed, end: end, former: former)
    }

    /// The store has committed, or refused, what it was asked to.
    mutating func noteAnswer(isCommitted: Bool) {
        isConfirmed = isConfirmed || isCommitted
        isKept = isConfirmed
    }

    /// Messages before `sequence` are no longer needed. Returns whether there were any.
    mutating func trim(before sequence: SequenceNumber) -> Bool {
        guard sequence > kept else { return false }
        kept = sequence
        // `sequence` may lie between two marks, so the last mark before it stays.
        let gone = marks.firstIndex { $0.sequence > sequence } ?? marks.count
        guard gone > 0 else { return true }
        oldest = marks[gone - 1]
        marks.removeFirst(gone)
        return true
    }

    /// Removes messages of `log` from memory.
    mutating func evict(_ log: Log, before sequence: SequenceNumber) {
        guard sequence > log.head else { return }
        for piece in log.pieces(from: log.head, upTo: sequence) {
            let first = Swift.max(piece.first, log.head)
            add((first, log.charged(before: first)))
        }
        log.evict(before: sequence)
        log.releaseLastChunk()
    }

    private mutating func add(_ mark: Mark) {
        if oldest == nil { oldest = mark } else { marks.append(mark) }
        guard marks.count > StoredLog.most else { return }
        marks = marks.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
    }

    /// The total charge of the messages before `sequence`, or before the mark that precedes it, in bytes.
    func charged(before sequence: SequenceNumber) -> UInt64 {
        let mark = marks.last { $0.sequence <= sequence } ?? oldest.flatMap { $0.sequence <= sequence ? $0 : nil }
        return mark?.chargedBefore ?? 0
    }

    /// About the same for the oldest message that the store must keep; nil if all messages are in memory.
    func chargedBeforeKept(_ log: Log) -> UInt64? {
        guard let oldest else { return nil }
        let next: Mark = marks.first ?? (log.head, log.charged - UInt64(log.bytes))
        guard kept > oldest.sequence, next.sequence > oldest.sequence else { return oldest.chargedBefore }
        let share = Double(kept - oldest.sequence) / Double(next.sequence - oldest.sequence)
        return oldest.chargedBefore + UInt64(Double(next.chargedBefore - oldest.chargedBefore) * Swift.min(1, share))
    }

    /// The first sequence from which on the charge is at most `limit` bytes. Messages between two marks are taken to be
    /// of equal size.
    func firstWithin(_ limit: Int, _ log: Log) -> SequenceNumber {
        if log.bytes > limit { return log.firstWithin(limit) }
        guard let oldest, log.charged > oldest.chargedBefore + UInt64(limit) else { return kept }
        let target = log.charged - UInt64(limit)
        let next = marks.firstIndex { $0.chargedBefore > target } ?? marks.count
        let from = next > 0 ? marks[next - 1] : oldest
        let to: Mark = next < marks.count ? marks[next] : (log.head, log.charged - UInt64(log.bytes))
        let share = Double(target - from.chargedBefore) / Double(Swift.max(1, to.chargedBefore - from.chargedBefore))
        let count = Int((Double(to.sequence - from.sequence) * share).rounded(.up))
        return Swift.max(kept, Swift.min(from.sequence.advanced(by: count), to.sequence))
    }
}

/// A topic in the store, for a view of it.
struct StoreReference: Sendable {
    var id: StoreID
    var former: [FormerEpoch]
}
