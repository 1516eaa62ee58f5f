// Effects: messages to other shards are sent in small batches.

import Testing

@testable import Core

@Suite struct EffectsTests {
    private func message(_ number: Int) -> ShardMessage { ShardMessage(content: .made(number, shard: 0)) }

    private func batches(_ messages: [ShardMessage]) -> [Int] {
        var effects = Effects(shards: 2)
        effects.messages[1] = messages
        var found: [Int] = []
        effects.takeMessages { batch, shard in
            #expect(shard == 1)
            found.append(batch.count)
        }
        effects.takeMessages { _, _ in Issue.record("they were taken") }
        return found
    }

    @Test func batchesAreSmall() {
        let most = Limits.messagesAtOnce
        for (count, expected) in [(1, [1]), (most, [most]), (most + 1, [most, 1]), (3 * most, [most, most, most])] {
            #expect(batches((0..<count).map(message)) == expected)
        }
    }

    /// They would be handled wrongly in different turns.
    @Test func messagesThatBelongTogetherStayTogether() throws {
        let most = Limits.messagesAtOnce
        let broker = TestBroker(shards: 2)
        broker.connect(1).subscribe("t.*")
        let topic = try #require((0..<50).map { "t.\($0)" }.first { Shard.owner(of: $0, among: 2) == 0 })
        broker.shards[0].beginTurn()
        let client = broker.connect()
        client.isFollowedByTurns = false
        client.fireAndForget(topic, "x")
        let view = try #require(broker.shards[0].effects.messages[1].first { $0.needsNext })
        #expect(batches((1..<most).map(message) + [view, message(0)]) == [most + 1])
        #expect(batches((1..<most).map(message) + [view, view, message(0), message(0)]) == [most + 2, 1])
        broker.runAll()
    }
}
