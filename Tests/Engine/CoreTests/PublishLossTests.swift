// Failed publishes: each is counted by its reason, and losses due to a shortage in the broker are reported.

import Bytes
import HTTP2
import HTTP2Frames
import RSocket
import Testing

@testable import Core

@Suite struct PublishLossTests {
    private func counters(_ broker: TestBroker) -> ShardCounters {
        var sum = ShardCounters()
        for shard in broker.shards { sum.add(shard.counters) }
        return sum
    }

    private func reported(_ broker: TestBroker) -> [[String]] {
        broker.log.filter { $0.message == "publishes lost" }.map { $0.fields.map { "\($0.key)=\($0.value)" } }
    }

    @Test(arguments: [1, 3])
    func whatIsLostToMemoryIsCountedAndTold(_ shards: Int) {
        let broker = TestBroker(shards: shards)
        let client = broker.connect()
        client.publish("t", "x", stream: 1)
        let watcher = broker.connect()
        watcher.subscribe("$SYS.stats")
        for _ in 0..<8 { broker.advance(seconds: 0.25) }
        #expect(reported(broker).isEmpty)
        _ = watcher.received()
        // Something else uses all of the memory.
        let taken = 2 * broker.memory.limit
        broker.memory.add(taken)
        for _ in 0..<5 { client.fireAndForget("t", "x") }
        client.publish("t", "x", stream: 11)
        client.channel("t", "x", stream: 13)
        let sum = counters(broker)
        #expect(sum.publishesDropped[.memory] == 5 && sum.publishesRefused[.memory] == 2)
        #expect(sum.lost(to: .memory) == 7 && sum.lost == 7 && sum.fireAndForgetDropped == 5)
        broker.memory.add(-taken)
        for _ in 0..<12 { broker.advance(seconds: 0.25) }
        #expect(reported(broker) == [["limit=memory", "dropped=5", "refused=2", "topic=t"]], "once")
        let figures = watcher.received()
        #expect(figures.contains { $0.contains("\"lost\":7,\"lost_to_memory\":7,\"lost_to_room\":0,") })
        #expect(!figures.contains { $0.contains("\"t\"") }, "who subscribes to them may not know of it")
    }

    /// Messages refused before they were complete do not belong to a known topic.
    @Test func aTopicThatIsNotKnownIsNotNamed() throws {
        var statistics = Statistics(shards: 1)
        var counters = ShardCounters()
        counters.publishesRefused[.memory] = 2
        statistics.take(counters, from: 0)
        _ = statistics.object(memory: 0, limit: 1, now: Instant(monotonic: 1_000_000_000, wall: 1))
        let loss = try #require(statistics.loss)
        #expect(loss.fields.map(\.key) == ["limit", "dropped", "refused"])
    }

    /// Each shard reports its counters once a second, in its own ticks.
    @Test func theTopicIsToldThoughCountersComeTwice() {
        var statistics = Statistics(shards: 2)
        let now = Instant(monotonic: 1_000_000_000, wall: 1)
        func topics() -> String? {
            _ = statistics.object(memory: 0, limit: 1, now: now)
            return statistics.loss?.fields.first { $0.key == "topic" }.map { "\($0.value)" }
        }
        var counters = ShardCounters()
        counters.publishesDropped[.room] = 3
        counters.lostTopic = "t"
        statistics.take(counters, from: 1)
        counters.lostTopic = ""
        statistics.take(counters, from: 1)
        #expect(topics() == "t")
        #expect(topics() == nil)
        counters.publishesDropped[.room] = 4
        statistics.take(counters, from: 1)
        #expect(topics() == nil, "not another second's")
    }

    /// Losses are counted whatever their reason, and on whichever shard they occur.
    @Test(arguments: [1, 3])
    func theTopicCountsAllThatWasLostOnItsWay(_ shards: Int) throws {
        var limits = Limits()
        limits.publishRate = 10
        let broker = TestBroker(shards: shards, limits: limits)
        let client = broker.connect()
        client.publish("t", "x", stream: 1)
        for _ in 0..<15 { client.fireAndForget("t", "x") }
        broker.advance(seconds: 2)
        client.publish("$SYS.topic.complete?name=t", "", stream: 41)
        for _ in 0..<3 { client.fireAndForget("t", "x") }
        client.publish("t", "x", stream: 43)
        broker.memory.add(2 * broker.memory.limit)
        client.fireAndForget("t", "x")
        broker.memory.add(-2 * broker.memory.limit)
        broker.advance(seconds: 1)
        let topic = try #require(broker.shards.compactMap { $0.topics["t"] }.first)
        #expect(topic.published == 10 && topic.losses.value.dropped == 6 + 3 + 1 && topic.losses.value.refused == 1)
        #expect(counters(broker).fireAndForgetDropped == 10 && counters(broker).publishesDropped[.rate] == 6)
        client.publish("$SYS.topic.info?name=t", "", stream: 45)
        let info = client.received().last ?? ""
        #expect(info.contains("\"fire_and_forget_dropped\":10,\"publishes_refused\":1,"), "\(info)")
    }

    /// The log names the topic, whatever the reason for the loss.
    @Test func theTopicIsNamedForEachShortage() {
        var limits = Limits()
        limits.topics = 3
        limits.publishRate = 1
        limits.parkTime = Limits.second / 2
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        client.publish("a", "x", stream: 1)
        client.publish("b", "x", stream: 3)
        broker.advance(seconds: 5)
        #expect(reported(broker) == [["limit=publish-rate", "dropped=0", "refused=1", "topic=b"]])
        client.fireAndForget("a", "x")
        broker.advance(seconds: 2)
        client.fireAndForget("one-too-many", "x")
        broker.advance(seconds: 2)
        #expect(reported(broker).last == ["limit=limit", "dropped=1", "refused=0", "topic=one-too-many"])
    }

    /// Publishers of a topic may learn of its deletion when another topic already has its name.
    @Test func aDeletedTopicsLossesAreNotThoseOfItsSuccessor() throws {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let client = broker.connect()
        let count = 4 * Work.endings
        for stream in 0..<count { client.channel("t", "x", stream: UInt32(2 * stream + 1)) }
        let old = try #require(shard.topics["t"])
        shard.parts.output.ownership.delete(old, now: broker.now)
        broker.connect().publish("t", "x")
        broker.runAll()
        let new = try #require(shard.topics["t"])
        #expect(new !== old && new.losses.value.refused == 0 && new.losses.value.dropped == 0)
        #expect(old.losses.value.refused == UInt64(count))
    }

    /// The limit on what one connection may have begun is its own: the loss is not due to a shortage in the broker.
    @Test(arguments: [true, false])
    func whatExceedsAConnectionsOwnLimitIsNoShortage(isAnswered: Bool) {
        var limits = Limits()
        limits.reassembly = 100_000
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        client.send { buffer in
            var frames = ByteBuffer()
            Array("t".utf8).withUnsafeBytes { route in
                [UInt8](repeating: 120, count: 200_000).withUnsafeBytes { data in
                    if isAnswered {
                        FrameWriter.requestResponse(
                            stream: 1, metadata: route, data: data, fragment: 60_000, into: &frames)
                    } else {
                        FrameWriter.requestFNF(stream: 1, metadata: route, data: data, fragment: 60_000, into: &frames)
                    }
                }
            }
            buffer.append(frames.readable)
        }
        #expect(client.received().count { $0.hasPrefix("1:! 202") } == (isAnswered ? 1 : 0))
        let sum = counters(broker)
        #expect(sum.limits[.reassembly] == (isAnswered ? 1 : 0))
        #expect((isAnswered ? sum.publishesRefused : sum.publishesDropped)[.tooLarge] == 1)
        #expect(sum.lost == 0 && sum.lastLoss == nil, "\(sum)")
    }

    /// The same for a call, and for a body of plain HTTP.
    @Test func whatExceedsAConnectionsOwnLimitOverHTTPIsNoShortage() {
        var limits = Limits()
        limits.reassembly = 100_000
        let broker = TestBroker(limits: limits)
        let peer = TestGRPC(broker)
        let stream = peer.call(.publishOne)
        peer.sendMessage(stream, Proto.field(1, "t") + TestGRPC.item(String(repeating: "x", count: 200_000)))
        peer.read()
        let sum = counters(broker)
        #expect(sum.publishesRefused[.tooLarge] == 1 && sum.limits[.reassembly] == 1)
        #expect(sum.lost == 0 && sum.lastLoss == nil)
    }

    @Test func whatWaitsWhenTheBrokerShutsDownIsCounted() {
        var limits = Limits()
        limits.publishRate = 1
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        for stream in [1, 3, 5] as [UInt32] { client.publish("a", "x", stream: stream) }
        broker.shards[0].drain(now: broker.now)
        broker.advance(seconds: 1)
        #expect(counters(broker).publishesRefused[.draining] == 2 && counters(broker).lost == 0)
    }

    @Test func reasonsAreToldApart() {
        var limits = Limits()
        limits.topics = 3
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        client.subscribe("full?overflow=block&buffer=1", n: 1)
        client.publish("full", "x", stream: 3)
        for _ in 0..<4 { client.fireAndForget("full", "x") }
        client.publish("ended", "x", stream: 5)
        client.publish("$SYS.topic.complete?name=ended", "", stream: 7)
        client.fireAndForget("ended", "x")
        client.publish("ended", "x", stream: 11)
        client.fireAndForget("one-too-many", "x")
        client.fireAndForget("not a name", "x")
        let sum = counters(broker)
        #expect(sum.publishesDropped[.room] == 3 && sum.publishesDropped[.ended] == 1)
        #expect(sum.publishesDropped[.limit] == 1 && sum.publishesDropped[.invalid] == 1)
        #expect(sum.publishesRefused[.ended] == 1 && sum.publishesRefused.total == 1)
        #expect(sum.lost == 4 && sum.fireAndForgetDropped == 6, "an error of the client is not a loss of the broker")
    }
}
