// Tests of Store: what is written is read back, retention, ends, deletion, limits.

import Testing

@testable import Store
@testable import store_exerciser

struct StoreTests {
    let topic = TopicID(5)

    @Test func whatIsWrittenIsReadBackAfterReopening() throws {
        try withFolder { folder in
            var store = try open(folder)
            let first = TestBatch(
                topic: topic, first: 1, count: 3, bodySize: 5000, firstTimestamp: 10, lastTimestamp: 20,
                chargedBefore: 0, chargedAfter: 300)
            let second = TestBatch(
                topic: topic, first: 4, count: 1, bodySize: 0, firstTimestamp: 30, lastTimestamp: 30,
                chargedBefore: 300, chargedAfter: 350)
            let publisher = PublisherRecord(key: [1, 2, 3], number: 9, sequence: 4, usedAt: 77)
            let other = PublisherRecord(key: [1], number: 1, sequence: 1, usedAt: 1)
            _ = try store.commit([.create(record(5)), first.write])
            let commit = try store.commit([
                second.write, .publishers(topic, [publisher, other], removed: []), .end(topic, .failed("why")),
            ])
            #expect(commit.bytes == 64 && commit.batches == 1 && commit.used == store.used)
            _ = try store.commit([.publishers(topic, [], removed: [[1], [9]])])
            for _ in 0..<2 {
                let batches = store.all(topic)
                #expect(batches.count == 2 && first.matches(batches[0]) && second.matches(batches[1]))
                var expected = record(5)
                expected.end = .failed("why")
                #expect(
                    try store.topics() == [
                        TopicSummary(
                            record: expected, first: 1, end: 5, chargedBefore: 0, charged: 350, lastTimestamp: 30,
                            publishers: [publisher], isStale: false)
                    ])
                store.close()
                store = try open(folder)
                #expect(!store.startedAfterCrash && !store.isCopy)
            }
            #expect(store.check() == StoreCheck(topics: 1, batches: 2, messages: 4, bytes: 5128, publishers: 1))
            store.close()
        }
    }

    @Test func readingBeginsWithTheBatchThatContainsTheSequence() throws {
        try withFolder { folder in
            let store = try open(folder)
            defer { store.close() }
            let batches = (0..<5).map {
                TestBatch(topic: topic, first: 1 + 10 * UInt64($0), count: 10, lastTimestamp: 100 * Int64($0))
            }
            let neighbours = [TestBatch(topic: TopicID(4), first: 30), TestBatch(topic: TopicID(6), first: 30)]
            _ = try store.commit([.create(record(4)), .create(record(5)), .create(record(6))])
            _ = try store.commit((batches + neighbours).map(\.write))
            func firsts(_ from: UInt64, _ upTo: UInt64 = .max, _ bytes: Int = .max) -> [UInt64]? {
                store.read(topic, from: from, upTo: upTo, bytes: bytes).batches?.map(\.first)
            }
            #expect(firsts(1) == [1, 11, 21, 31, 41])
            #expect(firsts(20) == [11, 21, 31, 41])
            #expect(firsts(21, 22) == [21])
            #expect(firsts(21, 31) == [21])
            #expect(firsts(21, 32) == [21, 31])
            #expect(firsts(1, .max, 1) == [1])
            #expect(firsts(1, .max, 101) == [1, 11])
            #expect(firsts(50) == [41])
            #expect(firsts(51) == [])
            #expect(firsts(.max) == [])
            #expect(store.read(TopicID(7), from: 1, upTo: 9, bytes: 9).batches?.isEmpty == true)
            #expect(store.read(TopicID(4), from: 1, upTo: 9, bytes: 9).goneBefore == 30)
        }
    }

    @Test func aTimeIsFoundByItsBatch() throws {
        try withFolder { folder in
            let store = try open(folder)
            defer { store.close() }
            _ = try store.commit([.create(record(5))])
            #expect(store.first(topic, atOrAfter: 0) == .end)
            var random = Random(state: 3)
            var batches: [TestBatch] = []
            var next: UInt64 = 17
            var time: Int64 = 0
            for _ in 0..<200 {
                let begin = time + .random(in: 0...5, using: &random)
                time = begin + .random(in: 0...3, using: &random)
                let count = Int.random(in: 1...50, using: &random)
                batches.append(
                    TestBatch(topic: topic, first: next, count: count, firstTimestamp: begin, lastTimestamp: time))
                next += UInt64(count)
            }
            _ = try store.commit(batches.map(\.write))
            for instant in -1...time + 1 {
                let expected = batches.first { $0.lastTimestamp >= instant }
                #expect(store.first(topic, atOrAfter: instant) == expected.map { .sequence($0.first) } ?? .end)
            }
        }
    }

    @Test func trimmingKeepsTheNewestBatch() throws {
        try withFolder { folder in
            let store = try open(folder)
            defer { store.close() }
            let batches = (0..<3000).map { TestBatch(topic: topic, first: 1 + 2 * UInt64($0), count: 2, bodySize: 8) }
            _ = try store.commit([.create(record(5))] + batches.map(\.write))
            _ = try store.commit([.trim(topic, before: 6)])
            #expect(store.read(topic, from: 1, upTo: .max, bytes: 1).goneBefore == 5)
            #expect(store.read(topic, from: 5, upTo: .max, bytes: 1).batches?.first?.first == 5)
            _ = try store.commit([.trim(topic, before: .max)])
            #expect(store.needsPurge)
            while store.needsPurge { try store.purgeSome() }
            #expect(store.all(topic, from: 5999).map(\.first) == [5999])
            let stored = try store.topics()[0]
            #expect(stored.first == 5999 && stored.end == 6001)
        }
    }

    @Test func aDeletedTopicIsGoneAtOnceAndPurgedInSteps() throws {
        try withFolder { folder in
            var store = try open(folder)
            let batches = (0..<5000).map { TestBatch(topic: topic, first: 1 + UInt64($0), bodySize: 8) }
            let publishers = (0..<9).map { PublisherRecord(key: [$0], number: 1, sequence: 1, usedAt: 1) }
            let empty = try store.info().used
            _ = try store.commit([.create(record(5)), .publishers(topic, publishers, removed: [])])
            _ = try store.commit(batches.map(\.write) + [.delete(topic), .purge(topic)])
            #expect(try store.topics().isEmpty && store.check().problems.isEmpty)
            try store.purgeSome()
            #expect(throws: StoreError.aborted("the topic is not stored")) {
                try store.commit([TestBatch(topic: topic, first: 5001).write])
            }
            #expect(throws: StoreError.aborted("the topic id is that of a deleted topic")) {
                try store.commit([.create(record(5))])
            }
            store.close()
            // The rest is purged after the next opening.
            store = try open(folder)
            #expect(try store.topics().isEmpty && store.needsPurge)
            while store.needsPurge { try store.purgeSome() }
            let info = try store.info()
            #expect(info.deleted == 0 && info.batches == 0 && info.publishers == 0 && info.used <= empty)
            store.close()
        }
    }

    @Test func smallTopicsArePurgedTogether() throws {
        try withFolder { folder in
            let store = try open(folder)
            defer { store.close() }
            _ = try store.commit(
                (1...3000).flatMap { (number: UInt64) -> [StoreWrite] in
                    let id = TopicID(number)
                    return [.create(record(number)), TestBatch(topic: id, first: 1).write, .delete(id), .purge(id)]
                })
            for _ in 0..<2 { try store.purgeSome() }
            #expect(!store.needsPurge)
            #expect(try store.info().deleted == 0)
        }
    }

    @Test func aBatchThatDoesNotFollowIsRefused() throws {
        try withFolder { folder in
            let store = try open(folder)
            defer { store.close() }
            let missing = StoreError.aborted("earlier messages of the topic were not stored")
            _ = try store.commit([.create(record(5)), TestBatch(topic: topic, first: 7, count: 2).write])
            for first: UInt64 in [1, 7, 8, 10] {
                #expect(throws: missing) { try store.commit([TestBatch(topic: topic, first: first).write]) }
            }
            _ = try store.commit([9, 10, 11].map { TestBatch(topic: topic, first: $0).write })
            #expect(throws: missing) {
                try store.commit([12, 14].map { TestBatch(topic: topic, first: $0).write })
            }
            #expect(store.all(topic, from: 7).map(\.first) == [7, 9, 10, 11])
        }
    }

    @Test func aFullStoreRefusesMessagesUntilItIsTrimmed() throws {
        try withFolder { folder in
            let store = try open(folder, bytes: 4 << 20)
            defer { store.close() }
            _ = try store.commit([.create(record(5))])
            var next: UInt64 = 1
            func fill() throws -> StoreError? {
                do throws(StoreError) {
                    while true {
                        _ = try store.commit([TestBatch(topic: topic, first: next, bodySize: 60_000).write])
                        next += 1
                    }
                } catch {
                    return error
                }
            }
            #expect(try fill() == .full)
            #expect(next > 50 && store.used <= 4 << 20)
            _ = try store.commit([.publishers(topic, [], removed: []), .end(topic, .completed)])
            for _ in 0..<20 {
                _ = try store.commit([.trim(topic, before: next - 20)])
                let before = next
                #expect(try fill() == .full)
                #expect(next > before + 30)
            }
            #expect(store.check().problems.isEmpty)
        }
    }

    @Test func onlyRecordsOfBeforeACrashAreStale() throws {
        try withFolder { folder in
            try crash(folder) { store in
                _ = try store.commit([.create(record(5, isRelaxed: true)), .create(record(6, isRelaxed: true))])
            }
            try crash(folder) { store in
                #expect(store.startedAfterCrash)
                #expect(try store.topics().map(\.isStale) == [true, true])
                _ = try store.commit([.create(record(6, epoch: 2, isRelaxed: true)), .end(topic, .completed)])
            }
            var store = try open(folder)
            #expect(try store.topics().map(\.isStale) == [true, true] && store.startedAfterCrash)
            _ = try store.commit([.create(record(6, epoch: 3, isRelaxed: true))])
            store.close()
            store = try open(folder)
            #expect(try store.topics().map(\.isStale) == [true, false] && !store.startedAfterCrash)
            store.close()
        }
    }

    /// Opens a copy of the folder as a crash would leave it.
    private func crash(_ folder: String, _ body: (Store) throws -> Void) throws {
        try withFolder { other in
            let store = try open(folder)
            try body(store)
            try copyFile("\(folder)/forebay.store", "\(other)/forebay.store")
            store.close()
            try copyFile("\(other)/forebay.store", "\(folder)/forebay.store")
        }
    }
}
