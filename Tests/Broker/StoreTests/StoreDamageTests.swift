// Tests of damaged files: a batch with a wrong bit is never delivered, a damaged tree does not end the process, and a
// file that is too short raises SIGBUS, which is contained.

import CStoreIO
import Foundation
import Testing

@testable import Store
@testable import store_exerciser

struct StoreDamageTests {
    let topic = TopicID(5)

    private func batches() -> [TestBatch] {
        (0..<20).map {
            TestBatch(topic: topic, first: 1 + 10 * UInt64($0), count: 10, bodySize: 9000, lastTimestamp: Int64($0))
        }
    }

    /// A closed store with two topics, of which 5 has 20 batches.
    private func fill(_ folder: String) throws {
        let store = try open(folder, bytes: 8 << 20)
        _ = try store.commit([.create(record(5)), .create(record(6))] + batches().map(\.write))
        _ = try store.commit([TestBatch(topic: TopicID(6), first: 1).write])
        store.close()
    }

    @Test func aBatchWithAWrongBitIsNotDelivered() throws {
        try withFolder { folder in
            try fill(folder)
            let path = "\(folder)/forebay.store"
            let intact = try Data(contentsOf: URL(fileURLWithPath: path))
            let body = Data(batches()[7].body)
            let place = try #require(intact.range(of: body)).lowerBound
            // In the body, in each field of the header, and in the page's header before it.
            for offset in [place, place + 8999, place - 64, place - 60, place - 56, place - 52, place - 48, place - 20]
            {
                var damaged = intact
                damaged[offset] ^= 0x10
                try damaged.write(to: URL(fileURLWithPath: path))
                let store = try open(folder, bytes: 8 << 20)
                defer { store.close() }
                #expect(
                    store.read(topic, from: 1, upTo: 200, bytes: .max).batches?.map(\.first) == [
                        1, 11, 21, 31, 41, 51, 61,
                    ])
                for sequence: UInt64 in [71, 75, 80] {
                    #expect(store.read(topic, from: sequence, upTo: 200, bytes: .max).unreadableBefore == 81)
                }
                #expect(store.all(topic, from: 81).count == 12)
                #expect(store.all(TopicID(6)).count == 1)
                let check = store.check()
                #expect(check.problemCount == 1 && check.problems[0].sequence == 71 && check.batches == 21)
                #expect(store.first(topic, atOrAfter: 9) == .sequence(91))
                var seen = 0
                var gaps: [UInt64] = []
                _ = try store.dump("topic-5", unreadable: { before, _ in gaps.append(before) }) { _ in
                    seen += 1
                    return true
                }
                #expect(seen == 19 && gaps == [81])
            }
        }
    }

    @Test func aDamagedLastBatchDoesNotHideTheEnd() throws {
        try withFolder { folder in
            try fill(folder)
            let path = "\(folder)/forebay.store"
            var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            let place = try #require(bytes.range(of: Data(batches()[19].body))).lowerBound
            bytes[place - 50] ^= 1
            try bytes.write(to: URL(fileURLWithPath: path))
            let store = try open(folder, bytes: 8 << 20)
            #expect(try store.topics()[0].end == 201)
            #expect(store.read(topic, from: 195, upTo: 201, bytes: 1).unreadableBefore == 201)
            // New messages and retention still work.
            _ = try store.commit([.trim(topic, before: 191), TestBatch(topic: topic, first: 201).write])
            #expect(store.check().problemCount == 1)
            _ = try store.commit([.trim(topic, before: .max)])
            #expect(store.check().problems.isEmpty && store.all(topic, from: 201).count == 1)
            store.close()
        }
    }

    /// Flips bits in pages of the trees. Whatever is read must be what was written.
    @Test func aDamagedTreeIsContained() throws {
        try withFolder { folder in
            try fill(folder)
            let path = "\(folder)/forebay.store"
            let intact = try Data(contentsOf: URL(fileURLWithPath: path))
            let bodies = Dictionary(uniqueKeysWithValues: batches().map { ($0.first, $0.body) })
            var random = Random(state: 11)
            // Pages of trees have the flags of branches (1) or leaves (2).
            let trees = stride(from: 8192, to: intact.count - 4095, by: 4096).filter {
                intact[$0 + 10] & 3 != 0 && intact[$0 + 11] == 0
            }
            #expect(trees.count >= 4)
            var failures = 0
            for _ in 0..<300 {
                var damaged = intact
                let page = trees.randomElement(using: &random)!
                // The header and the table of offsets more often than the rest.
                let offset =
                    Bool.random(using: &random)
                    ? Int.random(in: 8..<64, using: &random) : Int.random(in: 0..<4096, using: &random)
                damaged[page + offset] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                try damaged.write(to: URL(fileURLWithPath: path))
                guard let store = try? open(folder, bytes: 8 << 20, isReadOnly: true) else {
                    failures += 1
                    continue
                }
                if (try? store.topics()) == nil { failures += 1 }
                if !store.check().problems.isEmpty { failures += 1 }
                for sequence: UInt64 in [1, 55, 200] {
                    let read = store.read(topic, from: sequence, upTo: .max, bytes: .max)
                    for batch in read.batches ?? [] { #expect(Array(batch.body.bytes) == bodies[batch.first]) }
                }
                _ = store.first(topic, atOrAfter: 5)
                store.close()
            }
            #expect(failures >= 10)
        }
    }

    @Test func aFileThatEndsEarlyIsContained() throws {
        try withFolder { folder in
            try fill(folder)
            let path = "\(folder)/forebay.store"
            let store = try open(folder, bytes: 8 << 20)
            #expect(store.all(topic).count == 20)
            let size = try store.info().file
            #expect(truncate(path, off_t(size / 2 / 4096 * 4096)) == 0)
            let text = "the data file cannot be read"
            guard case .unreadable(_, let reason) = store.read(topic, from: 191, upTo: .max, bytes: 1) else {
                Issue.record("read from a page that does not exist")
                return
            }
            #expect(reason == text)
            #expect(store.check().problemCount > 0)
            // The writer stops for good, without ending the process.
            #expect(truncate(path, 8192) == 0)
            for _ in 0..<2 {
                #expect(throws: StoreError.unknown(text)) { try store.commit([.trim(topic, before: 100)]) }
            }
            store.close()
        }
    }
}
