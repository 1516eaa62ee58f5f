// What subscriptions to patterns may take of the broker, and what happens while one begins.

import Testing

@testable import Core

@Suite struct PatternLimitTests {
    /// A client that does not read cannot fill the memory with positions. Others keep theirs.
    @Test(arguments: [1, 2])
    func positionsHaveAShareOfMemory(_ shards: Int) {
        var limits = Limits()
        limits.memory = 4 << 20
        let broker = TestBroker(shards: shards, limits: limits)
        let (greedy, modest, publisher) = (broker.connect(), broker.connect(), broker.connect(shards - 1))
        greedy.subscribe("g.>", n: 1)
        modest.subscribe("m.>", n: 10)
        publisher.fireAndForget("m.first", "x")
        for number in 0..<1000 { publisher.fireAndForget("g.\(number)", "x") }
        let received = greedy.received()
        #expect(
            received.count == 2 && received.last?.contains("limit: The subscription to 'g.>' has positions in ") == true
        )
        let most = (4 << 20) / 8
        let used = broker.shards.map { $0.parts.requests.patterns.table.cursors * PatternSubscribing.cursorMemory }
        #expect(used.reduce(0, +) <= most)
        publisher.fireAndForget("m.second", "x")
        #expect(modest.received() == ["1:[1]m.first:x", "1:[1]m.second:x"])
    }

    /// While the owners of topics are still being asked for those that match, topics may deliver messages and end.
    @Test(arguments: 0..<100)
    func aTopicThatEndsBeforeTheBeginningIsReplayedOnce(_ seed: UInt64) {
        let broker = TestBroker(shards: 2, limits: Limits())
        let (publisher, subscriber) = (broker.connect(), broker.connect(1))
        let names = ["t.a", "x.a", "t.b", "x.b", "t.c"]
        for name in names { publisher.fireAndForget(name, "1") }
        for shard in broker.shards { shard.parts.requests.followers.slice = 2 }
        broker.chaos = LedgerRandom(state: seed)
        subscriber.subscribe("t.*?replay=all")
        for name in names {
            publisher.fireAndForget(name, "2")
            publisher.publish("$SYS.topic.complete?name=\(name)", "", stream: 3)
        }
        broker.chaos = nil
        broker.run()
        let received = subscriber.received()
        #expect(Set(received).count == received.count, "\(received)")
    }
}
