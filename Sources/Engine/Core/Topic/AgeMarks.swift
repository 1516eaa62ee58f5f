// AgeMarks: for how long a topic's messages have been there, by a clock that nobody sets. Their timestamps are the wall
// clock's: were they what `retain-age` goes by, setting that clock would throw history away, or keep it for good.

import Bytes
import Replay

/// Marks (end of the log, moment) of one topic, oldest first: the messages before that end were there at that moment.
struct AgeMarks {
    /// Marks that an age is divided into, and so at most that many and one: a message stays longer than it should by
    /// this part of the age at most, and never goes too early.
    static let count: UInt64 = 64

    private var marks: [(end: SequenceNumber, time: UInt64)] = []

    /// The log ends here now.
    mutating func note(end: SequenceNumber, age: UInt64, now: UInt64) {
        if let last = marks.last {
            guard last.end < end, now - Swift.min(last.time, now) >= age / AgeMarks.count else { return }
        }
        marks.append((end, now))
    }

    /// Messages before this have been there for `age`; nil if none has since this was asked before.
    mutating func takeOld(age: UInt64, now: UInt64) -> SequenceNumber? {
        let young = marks.firstIndex { $0.time.addingClamped(age) > now } ?? marks.count
        guard young > 0 else { return nil }
        let end = marks[young - 1].end
        marks.removeFirst(young)
        return end
    }

    /// Begins with what is there already, of which the timestamps tell how old it is, as far as the clock is right.
    mutating func begin(with log: Log, now: Instant) {
        marks.removeAll()
        let stride = Swift.max(1, (log.end - log.head) / Int(AgeMarks.count))
        var end = log.head
        while end < log.end {
            end = Swift.min(end.advanced(by: stride), log.end)
            let (time, isOver) = now.wall.subtractingReportingOverflow(log.timestamp(end.advanced(by: -1)))
            let old = isOver || time < 0 ? 0 : Swift.min(UInt64(time), now.monotonic)
            marks.append((end, Swift.max(now.monotonic - old, marks.last?.time ?? 0)))
        }
    }
}
