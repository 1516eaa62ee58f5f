// StoredLog: what of a stored topic's log is where. The store has all of it; the newest messages are in memory too.
//
//     kept                       log.head            committed      log.end
//      |        in the store        | in the store and memory | memory only |

import Replay

struct StoredLog {
    /// Marks that are kept; of more, every second one goes.
    private static let most = 4096

    /// The oldest message that the store is to keep.
    private(set) var kept = SequenceNumber.first
    /// Messages that left memory, and what all before them were charged: by these is known how many bytes the store
    /// keeps.
    private var marks: [(sequence: SequenceNumber, chargedBefore: UInt64)] = []

    /// Messages before `sequence` are needed no more. Returns whether there were any.
    mutating func trim(before sequence: SequenceNumber) -> Bool {
        guard sequence > kept else { return false }
        kept = sequence
        // What is before the first mark that stays may lie between two of them.
        let gone = (marks.firstIndex { $0.sequence > sequence } ?? marks.count) - 1
        if gone > 0 { marks.removeFirst(gone) }
        return true
    }

    /// Messages of `log` leave memory.
    mutating func evict(_ log: Log, before sequence: SequenceNumber) {
        guard sequence > log.head else { return }
        marks.append((log.head, log.charged(before: log.head)))
        if marks.count > StoredLog.most {
            marks = marks.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        }
        log.evict(before: sequence)
        log.releaseLastChunk()
    }

    /// The first sequence from which at most `limit` bytes are charged, as far as that is known.
    func firstWithin(_ limit: Int, _ log: Log) -> SequenceNumber {
        if log.bytes > limit { return log.firstWithin(limit) }
        let mark = marks.first { log.charged - $0.chargedBefore <= UInt64(limit) }
        return Swift.max(kept, mark?.sequence ?? log.head)
    }
}
