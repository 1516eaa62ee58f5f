// Draining: what still happens before the end.

import Testing

@testable import Core

/// A broker that shuts down delivers waiting messages, within the available credit, and accepts nothing more.
@Suite struct DrainTests {
    @Test(arguments: [(1, 0, 0), (2, 0, 1), (2, 1, 0)])
    func whatWaitsIsDelivered(_ shards: Int, _ at: Int, _ from: Int) {
        var limits = Limits()
        limits.output = 500
        let broker = TestBroker(shards: shards, limits: limits)
        let eager = broker.connect(at)
        let measured = broker.connect(at)
        eager.subscribe("t")
        measured.subscribe("t", n: 3)
        eager.window = 0
        let publisher = broker.connect(from)
        publisher.channel("t", String(repeating: "x", count: 100))
        publisher.items((0..<49).map { _ in String(repeating: "x", count: 100) })
        for shard in broker.shards { shard.drain(now: broker.now) }
        broker.run()
        publisher.publish("t", "late", stream: 7)
        let answers = publisher.received()
        #expect(answers.contains("5:50"))
        #expect(answers.contains { $0.hasPrefix("5:! 202 draining: The broker is shutting down") })
        #expect(answers.contains { $0.hasPrefix("7:! 202 draining: The broker is shutting down") })
        broker.advance(seconds: 1)
        #expect(publisher.isClosed && !measured.isClosed)
        broker.advance(seconds: 1)
        #expect(measured.received().count == 4 && measured.isClosed)
        #expect(!eager.isClosed)
        eager.read(.max)
        broker.advance(seconds: 1)
        let lines = eager.received()
        #expect(lines.count == 51)
        #expect(lines.last?.hasPrefix("0:! 102") == true)
        #expect(broker.shards.allSatisfy { $0.isIdle })
        #expect(
            broker.shards.allSatisfy { $0.open(peer: "127.0.0.1:1", wireProtocol: .rsocket, now: broker.now) == nil })
    }

    /// The reader behaves like clients that request more when half of their credit is used.
    @Test func whoAsksAgainGetsAllThatWaits() {
        let broker = TestBroker()
        let reader = broker.connect(0)
        let silent = broker.connect(0)
        for peer in [reader, silent] { peer.subscribe("t", n: 2) }
        let publisher = broker.connect(0)
        for number in 1...20 { publisher.publish("t", String(number), stream: UInt32(2 * number + 1)) }
        _ = (reader.received(), silent.received())
        for shard in broker.shards { shard.drain(now: broker.now) }
        for round in 1...9 {
            broker.advance(seconds: 0.5)
            #expect(!reader.isClosed)
            #expect(silent.isClosed == (round > 2))
            reader.requestN(2)
            #expect(reader.received().count == 2)
        }
        broker.advance(seconds: 0.5)
        #expect(reader.isClosed)
    }
}
