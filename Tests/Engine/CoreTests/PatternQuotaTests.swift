// How patterns count towards `max-patterns`, and how comparing names with them counts as work.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct PatternQuotaTests {
    /// A pattern counts once for all threads, and several times if it is long.
    @Test func patternsCountOnceByTheirLength() {
        var limits = Limits()
        limits.patterns = 3
        let broker = TestBroker(shards: 2, limits: limits)
        let clients = [broker.connect(0), broker.connect(1)]
        for client in clients { client.subscribe("t.*", stream: 1) }
        #expect(broker.quotas.patterns.value == 1)
        for client in clients { client.subscribe("1.2.3.*", stream: 3) }
        #expect(broker.quotas.patterns.value == 2)
        clients[0].subscribe("1.2.3.4.*", stream: 5)
        #expect(clients[0].received().first?.contains("(max-patterns") == true)
        for client in clients { client.cancel(stream: 3) }
        for client in clients { client.subscribe("1.2.3.4.*", stream: 7) }
        #expect(broker.quotas.patterns.value == 3)
        clients[1].subscribe("u.*", stream: 9)
        #expect(clients[1].received().first?.contains("(max-patterns") == true)
        clients[0].disconnect()
        #expect(broker.quotas.patterns.value == 3)
        clients[1].disconnect()
        #expect(broker.quotas.patterns.value == 0)
    }

    /// New topics that have to be compared with many patterns use up the turn.
    @Test func manyPatternsTakeTime() {
        let broker = TestBroker()
        let (client, publisher) = (broker.connect(), broker.connect())
        for number in 0..<256 {
            let tokens = (0..<8).map { number >> $0 & 1 == 0 ? "a" : "*" }
            client.subscribe(tokens.joined(separator: ".") + ".b", stream: UInt32(2 * number + 1))
        }
        publisher.isFollowedByTurns = false
        let topics = (0..<20).map { "a.a.a.a.a.a.a.a.\($0)" }
        let before = broker.shards[0].topics.namedCount
        publisher.send { buffer in
            for topic in topics {
                Array(topic.utf8).withUnsafeBytes {
                    FrameWriter.requestFNF(stream: 9, metadata: $0, data: $0, fragment: 1 << 20, into: &buffer)
                }
            }
        }
        #expect((1...2).contains(broker.shards[0].topics.namedCount - before))
        broker.run()
        #expect(broker.shards[0].topics.namedCount - before == 20)
    }
}
