// A model of the store, simple enough to be right, against the store: random operations, reopened now and then.

import Foundation
import Testing

@testable import Store
@testable import store_exerciser

struct StoreModelTests {
    @Test(arguments: 1...6)
    func theStoreHoldsWhatTheModelHolds(_ seed: UInt64) throws {
        try withFolder { folder in
            var model = Model(random: Random(state: seed))
            var store = try open(folder, bytes: 256 << 20)
            for round in 0..<150 {
                let lists = (0..<Int.random(in: 1...3, using: &model.random)).map { _ in
                    (0..<Int.random(in: 1...8, using: &model.random)).map { _ in model.write() }
                }
                #expect(try store.commit(lists).refused.isEmpty)
                if round % 7 == 0 { try store.purgeSome() }
                if round % 10 == 9 { try compare(model, store) }
                if round % 37 == 36 {
                    store.close()
                    store = try open(folder, bytes: 256 << 20)
                    try compare(model, store)
                }
            }
            // The topics that were deleted are purged after the next opening.
            store.close()
            store = try open(folder, bytes: 256 << 20)
            while store.needsPurge { try store.purgeSome() }
            let check = store.check()
            #expect(check.problems.isEmpty && check.topics == model.topics.count)
            #expect(check.batches == model.topics.values.reduce(0) { $0 + $1.batches.count })
            #expect(check.publishers == model.topics.values.reduce(0) { $0 + $1.publishers.count })
            store.close()
        }
    }

    private func compare(_ model: Model, _ store: Store) throws {
        let stored = try store.topics()
        #expect(stored.map(\.record.id.value) == model.topics.keys.map(\.value).sorted())
        for found in stored {
            let topic = try #require(model.topics[found.record.id])
            #expect(found.record == topic.record && !found.isStale)
            #expect(found.publishers == topic.publishers.values.sorted { $0.key.lexicographicallyPrecedes($1.key) })
            let batches = store.all(found.record.id, from: found.first)
            #expect(batches.count == topic.batches.count)
            #expect(zip(topic.batches, batches).allSatisfy { $0.matches($1) })
            if let first = topic.batches.first, let last = topic.batches.last {
                #expect(found.first == first.first && found.end == last.end && found.charged == last.chargedAfter)
                #expect(found.chargedBefore == first.chargedBefore && found.lastTimestamp == last.lastTimestamp)
                if first.first > 1 {
                    #expect(
                        store.read(found.record.id, from: first.first - 1, upTo: .max, bytes: 1).goneBefore
                            == first.first)
                }
            } else {
                #expect(found.first == 1 && found.end == 1)
            }
        }
    }
}
