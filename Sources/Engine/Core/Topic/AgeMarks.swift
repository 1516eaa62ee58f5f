// AgeMarks: the age of a topic's messages on the monotonic clock. Timestamps use the wall clock: if `retain-age` used
// them, setting the clock could discard history or keep it forever.

import Bytes
import Replay

/// Marks (end of the log, time) of one topic, oldest first: messages before that end existed at that time.
struct AgeMarks {
    /// The number of marks per `age`, so at most one more mark exists. A message may be kept too long by at most
    /// 1/`count` of the age, and is never removed too early.
    static let count: UInt64 = 64

    private var marks: [(end: SequenceNumber, time: UInt64)] = []

    /// Records the current end of the log.
    mutating func note(end: SequenceNumber, age: UInt64, now: UInt64) {
        if let last = marks.last {
            guard last.end < end, now - Swift.min(last.time, now) >= age / AgeMarks.count else { return }
        }
        marks.append((end, now))
    }

    /// The end of the messages that have reached `age`; nil if there are no further ones since the last call.
    mutating func takeOld(age: UInt64, now: UInt64) -> SequenceNumber? {
        let young = marks.firstIndex { $0.time.addingClamped(age) > now } ?? marks.count
        guard young > 0 else { return nil }
        let end = marks[young - 1].end
        marks.removeFirst(young)
        return end
    }

    /// Messages from `end` on have been removed from the log.
    mutating func remove(from end: SequenceNumber) {
        guard let first = marks.firstIndex(where: { $0.end > end }) else { return }
        let time = marks[first].time
        marks.removeSubrange(first...)
        // Earlier messages for which there was no mark of their own.
        if marks.last.map({ $0.end < end }) ?? true { marks.append((end, time)) }
    }

    /// Starts with the log's existing messages. Their ages follow from their timestamps, and are right if the clock is.
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
