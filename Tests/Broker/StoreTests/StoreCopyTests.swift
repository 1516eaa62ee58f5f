// Tests of copies: consistent, marked, and given up in time.

import EventLoop
import Foundation
import Testing

@testable import Store
@testable import store_exerciser

struct StoreCopyTests {
    let topic = TopicID(5)

    @Test func topicsOfACopyTakeNewEpochsOnce() throws {
        try withFolder { folder in
            let store = try open(folder + "/live")
            let batches = (0..<50).map { TestBatch(topic: topic, first: 1 + UInt64($0), bodySize: 40_000) }
            let publisher = PublisherRecord(key: [9], number: 2, sequence: 2, usedAt: 3)
            _ = try store.commit([.create(record(5, epoch: 3)), .create(record(6, epoch: 4)), .create(record(7))])
            _ = try store.commit(
                batches.map(\.write) + [.publishers(topic, [publisher], removed: []), .delete(TopicID(7))])
            try store.copy(to: folder + "/copy")
            #expect(throws: StoreError.foreign("there already is a store in \(folder)/copy")) {
                try store.copy(to: folder + "/copy")
            }
            // The live store goes on.
            _ = try store.commit([TestBatch(topic: topic, first: 51).write])
            store.close()

            let tool = try open(folder + "/copy", isReadOnly: true)
            #expect(try tool.info().isCopy && !tool.isCopy)
            tool.close()
            for attempt in 0..<2 {
                var epochs: [UInt64] = [100, 200]
                let copy = try Store.open(StoreOptions(directory: folder + "/copy", bytes: 64 << 20)) {
                    epochs.removeFirst()
                }
                #expect(copy.isCopy == (attempt == 0) && !copy.startedAfterCrash)
                let stored = try copy.topics()
                #expect(stored.map(\.record.epoch) == [100, 200])
                #expect(
                    stored.map(\.record.former) == [
                        [FormerEpoch(epoch: 3, end: 51)], [FormerEpoch(epoch: 4, end: 1)],
                    ])
                #expect(stored[0].publishers == [publisher])
                let found = copy.all(topic)
                #expect(found.count == 50 && zip(batches, found).allSatisfy { $0.matches($1) })
                #expect(copy.check().problems.isEmpty && copy.needsPurge)
                copy.close()
            }
        }
    }

    @Test func anUnfinishedCopyIsNotTakenForANewStore() throws {
        try withFolder { folder in
            let store = try open(folder + "/live")
            defer { store.close() }
            let target = folder + "/copy"
            try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: false)
            for name in ["forebay.store.copy", "forebay.store.copy-lock"] {
                #expect(FileManager.default.createFile(atPath: "\(target)/\(name)", contents: Data("half".utf8)))
            }
            let error = StoreError.foreign(
                "\(target) holds an unfinished copy of a store; copy it again, or remove its files")
            #expect(throws: error) { try Store.checkPlace(StoreOptions(directory: target, bytes: 64 << 20)) }
            #expect(throws: error) { try open(target).close() }
            try store.copy(to: target)
            #expect(try FileManager.default.contentsOfDirectory(atPath: target) == ["forebay.store"])
        }
    }

    @Test func aCopyIsGivenUpWhenTheStoreGrowsTooMuch() throws {
        try withFolder { folder in
            let store = try open(folder + "/live", bytes: 128 << 20)
            defer { store.close() }
            let batches = (0..<40).map { TestBatch(topic: topic, first: 1 + UInt64($0), bodySize: 1 << 20) }
            _ = try store.commit([.create(record(5))] + batches.map(\.write))
            let map = try store.info().map
            // Without growth, a limit that has been passed already is not an error.
            try store.copy(to: folder + "/first", keepingFree: map)
            let isDone = Monitor(false)
            let writer = Thread {
                for index in 0..<700 where !isDone.with({ $0 }) {
                    _ = try? store.commit([TestBatch(topic: topic, first: 41 + UInt64(index), bodySize: 100_000).write])
                }
            }
            writer.start()
            #expect(
                throws: StoreError.aborted(
                    "the copy was given up, because the store has grown into its reserve meanwhile")
            ) {
                while !writer.isFinished {
                    try store.copy(to: folder + "/second", keepingFree: map)
                    try FileManager.default.removeItem(atPath: folder + "/second")
                }
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/second").isEmpty)
            isDone.with { $0 = true }
            while !writer.isFinished { usleep(1000) }
        }
    }
}
