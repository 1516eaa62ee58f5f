// StoredLog: where the messages of a stored topic are. The store has all of them; the newest are in memory, too.
//
//     kept                       log.head            committed      log.end
//      |        in the store        | in the store and memory | memory only |

import Replay

struct StoredLog {
    /// Marks kept; when there are more, every second one is removed.
    private static let most = 4096

    /// The oldest message that the store must keep.
    private(set) var kept = SequenceNumber.first
    /// Messages that have left memory, and the total charge before each. They show how many bytes the store keeps.
    private var marks: [(sequence: SequenceNumber, chargedBefore: UInt64)] = []

    /// Messages before `sequence` are no longer needed. Returns whether there were any.
    mutating func trim(before sequence: SequenceNumber) -> Bool {
        guard sequence > kept else { return false }
        kept = sequence
        // `sequence` may lie between two marks, so the last mark before it stays.
        let gone = (marks.firstIndex { $0.sequence > sequence } ?? marks.count) - 1
        if gone > 0 { marks.removeFirst(gone) }
        return true
    }

    /// Removes messages of `log` from memory.
    mutating func evict(_ log: Log, before sequence: SequenceNumber) {
        guard sequence > log.head else { return }
        marks.append((log.head, log.charged(before: log.head)))
        if marks.count > StoredLog.most {
            marks = marks.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        }
        log.evict(before: sequence)
        log.releaseLastChunk()
    }

    /// The first sequence from which on the charge is at most `limit` bytes, as accurately as the marks allow.
    func firstWithin(_ limit: Int, _ log: Log) -> SequenceNumber {
        if log.bytes > limit { return log.firstWithin(limit) }
        let mark = marks.first { log.charged - $0.chargedBefore <= UInt64(limit) }
        return Swift.max(kept, mark?.sequence ?? log.head)
    }
}
