// EntryCache, compared with entries made one by one, over logs that grow at the end and shrink at the beginning.

import Bytes
import Glibc
import HTTP2
import Replay
import Testing

@testable import Core

@Suite struct HTTPEntryCacheTests {
    private struct Message {
        var payload: [UInt8]
        var metadata: [UInt8]?
        var timestamp: Int64
    }

    /// A log, and what was appended to it.
    private final class Source {
        let log = Log()
        let budget = MemoryBudget(limit: .max)
        var messages: [Message] = []

        func append(_ message: Message) {
            // Timestamps never decrease, even if the clock is set back.
            var message = message
            message.timestamp = max(message.timestamp, messages.last?.timestamp ?? .min)
            messages.append(message)
            message.payload.withUnsafeBytes { payload in
                (message.metadata ?? []).withUnsafeBytes { metadata in
                    _ = log.append(
                        metadata: message.metadata == nil ? nil : metadata, payload: payload,
                        timestamp: message.timestamp, budget: budget)
                }
            }
        }

        /// As encoded by MessageEntry.
        func entry(_ sequence: SequenceNumber) -> [UInt8] {
            let message = messages[Int(sequence.value) - 1]
            return (message.metadata ?? []).withUnsafeBytes { metadata in
                let entry = MessageEntry(
                    sequence: sequence.value, timestamp: message.timestamp, payloadCount: message.payload.count,
                    metadata: metadata)
                return [UInt8](unsafeUninitializedCapacity: entry.size) { target, count in
                    message.payload.withUnsafeBytes {
                        entry.write($0, to: UnsafeMutableRawPointer(target.baseAddress!))
                    }
                    count = entry.size
                }
            }
        }
    }

    private func isEqual(_ bytes: UnsafeRawBufferPointer, _ expected: [UInt8]) -> Bool {
        bytes.count == expected.count
            && expected.withUnsafeBytes { memcmp($0.baseAddress!, bytes.baseAddress!, $0.count) } == 0
    }

    /// A content type with a number, and bytes that no protocol knows.
    private static func metadata(_ random: inout LedgerRandom) -> [UInt8]? {
        switch random.next(4) {
        case 0: [0x80 | 0x7A, 0, 0, 1, 0x80 | 0x05]
        case 1: [3] + Array("a/bc".utf8) + [0, 0, 2, 0xFF, UInt8(random.next(256))]
        default: nil
        }
    }

    @Test(arguments: 0..<12) func entriesAreThoseOfEachMessage(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed))
        let source = Source()
        var cache = EntryCache()
        for step in 0..<80 {
            for _ in 0..<random.pick([0, 1, 1, 5, 40]) {
                let size = random.pick([0, 0, 1, 20, 127, 128, 3000, 70_000, 200_000])
                let byte = UInt8(truncatingIfNeeded: step)
                source.append(
                    Message(
                        payload: [UInt8](repeating: byte, count: size), metadata: Self.metadata(&random),
                        timestamp: Int64(step) << Int64(random.pick([0, 20, 50]))))
            }
            if random.next(4) == 0 {
                source.log.evict(
                    before: source.log.head.advanced(by: random.next(source.log.end - source.log.head + 1)))
            }
            if random.next(6) == 0 { cache.evict(before: source.log.head) }
            if random.next(30) == 0 { cache.removeAll() }
            let held = source.log.end - source.log.head
            guard held > 0 else { continue }
            for _ in 0..<4 {
                let start = source.log.head.advanced(by: random.next(held))
                let run = cache.run(for: start, in: source.log, budget: source.budget)
                let most = 1 + random.next(source.log.end - start)
                let room = random.pick([1, 50, 5000, 1 << 20])
                let (count, bytes) = run.entries(from: start, most: most, room: room)
                #expect(count >= 1 && count <= most && (bytes.count <= room || count == 1))
                var expected: [UInt8] = []
                for index in 0..<count { expected += source.entry(start.advanced(by: index)) }
                #expect(isEqual(bytes, expected), "seed \(seed): \(count) messages from \(start)")
                // There are as many messages as there was room for.
                if count < most, start.advanced(by: count) < run.end {
                    #expect(bytes.count + source.entry(start.advanced(by: count)).count > room)
                }
                #expect(cache.memory <= EntryCache.limit)
            }
        }
        // The broker is charged for what the cache says it holds.
        let logs = source.log.memory
        #expect(source.budget.used - logs == cache.memory)
        source.log.evict(before: source.log.end)
        cache.evict(before: source.log.head)
        source.log.releaseLastChunk()
        #expect(cache.memory == 0 && source.budget.used == source.log.memory)
    }

    @Test func aTopicOfOneMessageTakesLittle() {
        let source = Source()
        var cache = EntryCache()
        source.append(Message(payload: [1], metadata: nil, timestamp: 1))
        _ = cache.run(for: SequenceNumber(1), in: source.log, budget: source.budget)
        #expect(cache.memory == EntryRun.smallest)
    }

    @Test func whoFollowsFindsTheSameRun() {
        let source = Source()
        var cache = EntryCache()
        var runs = 0
        var last: EntryRun?
        for index in 1...2000 {
            source.append(Message(payload: [UInt8](repeating: 1, count: 100), metadata: nil, timestamp: 1))
            let run = cache.run(for: SequenceNumber(UInt64(index)), in: source.log, budget: source.budget)
            #expect(run === cache.run(for: SequenceNumber(UInt64(index)), in: source.log, budget: source.budget))
            if run !== last { runs += 1 }
            last = run
        }
        // 2000 messages of about 120 bytes in runs of 4 to 64 KiB.
        #expect(runs <= 9, "\(runs)")
    }

    @Test func whatIsInUseOutlivesTheCache() {
        let source = Source()
        var cache = EntryCache()
        let size = 200_000
        for index in 0..<40 {
            source.append(Message(payload: [UInt8](repeating: UInt8(index), count: size), metadata: nil, timestamp: 1))
        }
        let first = cache.run(for: SequenceNumber(1), in: source.log, budget: source.budget)
        for index in 2...40 {
            _ = cache.run(for: SequenceNumber(UInt64(index)), in: source.log, budget: source.budget)
            #expect(cache.memory <= EntryCache.limit)
        }
        let again = cache.run(for: SequenceNumber(1), in: source.log, budget: source.budget)
        #expect(again === first, "it was made twice")
        cache.removeUnused()
        #expect(cache.memory == first.capacity && source.budget.unread == 0)
        cache.removeAll()
        #expect(cache.memory == 0 && source.budget.unread == first.capacity)
        let (count, bytes) = first.entries(from: SequenceNumber(1), most: 1, room: 1)
        #expect(count == 1 && isEqual(bytes, source.entry(SequenceNumber(1))))
    }

    @Test func aSizeIsFoundOutOnce() {
        var sizes = EntrySizes()
        func note(_ sequence: UInt64, _ bytes: Int, isLarge: Bool, head: UInt64 = 1) {
            sizes.note(SequenceNumber(sequence), bytes, isLarge: isLarge, head: SequenceNumber(head))
        }
        func size(_ sequence: UInt64) -> Int? { sizes.size(of: SequenceNumber(sequence)) }
        #expect(size(7) == nil)
        note(7, 100, isLarge: false)
        #expect(size(7) == 100 && size(8) == nil)
        note(8, 200, isLarge: true)
        #expect(size(7) == nil && size(8) == 200)
        note(9, 300, isLarge: true)
        #expect([size(8), size(9)] == [200, 300])
        for sequence in UInt64(10)..<200 { note(sequence, 1, isLarge: true, head: sequence - 2) }
        #expect(size(8) == nil, "entries of evicted messages are still kept")
        #expect([size(197), size(198), size(199)] == [1, 1, 1])
    }
}
