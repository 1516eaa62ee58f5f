// Deleted topics that a store keeps: how long they stay, and what the store is asked for.

import Testing

@testable import Core

@Suite struct StoredDeletionTests {
    private func broker(_ shards: Int = 1, relaxed: Bool = false) throws -> TestBroker {
        try TestBroker.storing(shards, relaxed: relaxed)
    }

    @Test func aDeletedTopicIsPurgedOnceNobodyReadsIt() throws {
        let broker = try broker()
        let (subscriber, client) = (broker.connect(), broker.connect())
        client.publish("t", "a")
        broker.commit()
        subscriber.subscribe("t?replay=all&meta=off")
        client.publish("$SYS.topic.delete?name=t", "", stream: 5)
        #expect(client.received().count == 1, "the call is answered once the deletion is committed")
        #expect(broker.store.deleted.count == 1)
        #expect(broker.store.purged.isEmpty)
        broker.commit()
        #expect(client.received().count == 1)
        #expect(subscriber.received().count == 2)
        #expect(broker.store.purged == broker.store.deleted)
    }

    @Test func aDeletedRelaxedTopicStaysUntilItIsWritten() throws {
        let broker = try broker(relaxed: true)
        let client = broker.connect()
        client.publish("t", "a")
        #expect(broker.shards[0].context.store.uncommitted > 0)
        client.publish("$SYS.topic.delete?name=t", "", stream: 5)
        #expect(client.received().count == 2, "nothing waits for the store")
        client.publish("t", "b", stream: 7)
        #expect(broker.shards[0].topics.count == broker.shards[0].topics.namedCount + 1)
        broker.commit()
        #expect(broker.shards[0].topics.count == broker.shards[0].topics.namedCount)
        #expect(broker.store.purged.count == 1 && Set(broker.store.purged) == Set(broker.store.deleted))
        #expect(broker.shards[0].context.store.uncommitted == 0)
    }

    @Test func aFailedStoreRefusesEndsAndDeletions() throws {
        let broker = try broker()
        let client = broker.connect()
        client.publish("t", "a")
        broker.commit()
        _ = client.received()
        broker.storeHealth.note(.unknown, now: broker.now.monotonic)
        for (index, call) in ["complete", "fail", "delete"].enumerated() {
            client.publish("$SYS.topic.\(call)?name=t", "", stream: UInt32(2 * index + 11))
            #expect(client.received().first?.contains("store: The store has failed") == true)
        }
        client.subscribe("t?replay=all&meta=off", stream: 21)
        #expect(client.received() == ["21:a"])
    }

    @Test func fewDeletionsOfANameWaitForTheStore() throws {
        let broker = try broker(relaxed: true)
        let client = broker.connect()
        for number in 0..<17 {
            client.publish("t", "a", stream: UInt32(4 * number + 3))
            client.publish("$SYS.topic.delete?name=t", "", stream: UInt32(4 * number + 5))
            let refused = client.received().last?.contains("limit: 16 deletions of topics named 't' are waiting")
            #expect(refused == (number == 16))
        }
        broker.commit()
        client.publish("$SYS.topic.delete?name=t", "", stream: 101)
        broker.commit()
        #expect(broker.shards[0].topics.count == broker.shards[0].topics.namedCount)
        #expect(broker.shards[0].parts.output.ownership.unwrittenDeletions.isEmpty)
    }
}
