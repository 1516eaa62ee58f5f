// BenchAudit: checks the messages received by one subscriber of `bench`, without I/O: which belong to this run, which
// are missing, duplicated or out of order, and which marks were seen.

import Measure

/// The totals of all subscribers.
struct BenchDeliveries {
    var messages: UInt64 = 0
    var reads: UInt64 = 0
    /// Messages that never arrived.
    var lost: UInt64 = 0
    /// Messages that arrived twice, or after a later one.
    var misplaced: UInt64 = 0
    /// Messages of other publishers on the same topic.
    var foreign: UInt64 = 0
    /// When the last message arrived, in nanoseconds of the monotonic clock.
    var last: UInt64 = 0
    /// From when messages were due until they were read, in nanoseconds.
    var latency = Histogram()
}

struct BenchAudit {
    /// The latest round whose mark was seen.
    private(set) var round: UInt64 = 0
    private let tag: UInt32
    private let size: Int
    private let isNumbered: Bool
    /// The next number expected from each publisher.
    private var next: [UInt64]
    private var received: UInt64 = 0

    init(_ settings: BenchSettings) {
        tag = settings.tag
        size = settings.size
        isNumbered = settings.isNumbered
        next = Array(repeating: 0, count: settings.publishers)
    }

    /// Checks the next message; returns its header if it counts and has one.
    mutating func take(
        _ data: UnsafeRawBufferPointer, _ deliveries: inout BenchDeliveries
    ) -> BenchMessage.Header? {
        guard let header = BenchMessage.read(data, tag: tag) else {
            if isNumbered || data.count != size {
                deliveries.foreign += 1
            } else {
                received += 1
                deliveries.messages += 1
            }
            return nil
        }
        if header.publisher == BenchMessage.marker {
            round = max(round, header.number)
            return nil
        }
        let publisher = Int(header.publisher)
        guard publisher < next.count else {
            deliveries.foreign += 1
            return nil
        }
        guard header.number >= next[publisher] else {
            deliveries.misplaced += 1
            return nil
        }
        deliveries.lost += header.number - next[publisher]
        next[publisher] = header.number + 1
        deliveries.messages += 1
        return header
    }

    /// Counts the messages that never arrived, given how many each publisher `published`. Call once, at the end.
    func account(_ published: [UInt64], _ deliveries: inout BenchDeliveries) {
        if isNumbered {
            for (published, next) in zip(published, next) where published > next { deliveries.lost += published - next }
        } else {
            let all = published.reduce(0, +)
            if all > received { deliveries.lost += all - received }
        }
    }
}
