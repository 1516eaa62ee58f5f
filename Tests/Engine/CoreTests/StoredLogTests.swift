// How many of a stored topic's messages fit its limit on bytes.

import Replay
import Testing

@testable import Core

@Suite struct StoredLogTests {
    private let budget = MemoryBudget(limit: .max)

    private func append(_ count: Int, to log: Log, bytes: Int = 1000) {
        let payload = [UInt8](repeating: 7, count: bytes)
        for _ in 0..<count {
            payload.withUnsafeBytes { _ = log.append(metadata: nil, payload: $0, timestamp: 1, budget: budget) }
        }
    }

    /// A topic of 1,000 messages, with a total charge of `charge`.
    private func restored(charge: UInt64) -> (StoredLog, Log) {
        let end = SequenceNumber(1001)
        let row = StoredTopicRow(id: StoreID(5), name: "t", epoch: 7, isRelaxed: false, end: nil)
        let topic = StoredTopic(
            row: row, messages: SequenceRange(lower: .first, upper: end), charged: 0...charge, lastTimestamp: 1,
            mayHaveLost: false)
        return (StoredLog(topic), Log(end: end, charged: charge, latest: 1))
    }

    @Test func oneMessageBeyondTheLimitRemovesOne() {
        var (stored, log) = restored(charge: 1_000_000)
        #expect(stored.firstWithin(1_000_000, log) == .first)
        append(1, to: log, bytes: 900)
        #expect(stored.firstWithin(1_000_000, log) == SequenceNumber(2))
        _ = stored.trim(before: SequenceNumber(2))
        append(9, to: log, bytes: 900)
        let first = stored.firstWithin(1_000_000, log).value
        #expect((10...12).contains(first))
        _ = stored.trim(before: SequenceNumber(first))
        #expect(stored.firstWithin(.max, log).value == first)
    }

    @Test(arguments: [10, 1000, 30_000])
    func whatLeftMemoryTogetherIsRemovedInParts(_ bytes: Int) {
        let log = Log()
        var stored = StoredLog(.durable, epoch: 7)!
        append(2000, to: log, bytes: bytes)
        let exact = log.firstWithin(log.bytes / 2)
        stored.evict(log, before: log.end)
        #expect(log.isEmpty)
        let first = stored.firstWithin(Int(log.charged) / 2, log)
        #expect(abs(first - exact) <= 1 && stored.charged(before: first) > 0)
    }

    @Test func messagesInMemoryAreCountedExactly() {
        var (stored, log) = restored(charge: 1_000_000)
        append(100, to: log)
        let limit = log.bytes / 2
        #expect(stored.firstWithin(limit, log) == log.firstWithin(limit))
        #expect(stored.firstWithin(log.bytes, log) == SequenceNumber(1001))
        _ = stored.trim(before: SequenceNumber(1001))
        #expect(stored.firstWithin(.max, log) == SequenceNumber(1001))
    }
}
