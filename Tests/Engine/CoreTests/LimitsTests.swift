// Each limit of the engine, reached.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct LimitsTests {
    private func broker(_ set: (inout Limits) -> Void) -> TestBroker {
        var limits = Limits()
        set(&limits)
        return TestBroker(limits: limits)
    }

    @Test func connectionsInAllAndByAddress() {
        let few = broker { $0.connections = 2 }
        #expect(
            (0..<4).map { few.shards[0].open(peer: "10.0.0.\($0):1", wireProtocol: .rsocket, now: few.now) != nil } == [
                true, true, false, false,
            ])
        let perAddress = broker { $0.connectionsPerAddress = 1 }
        let peers = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"]
        #expect(
            peers.map { perAddress.shards[0].open(peer: $0, wireProtocol: .rsocket, now: perAddress.now) != nil } == [
                true, false, true,
            ])
    }

    @Test func aPlaceIsFreeAgain() {
        let broker = broker { $0.connectionsPerAddress = 1 }
        let first = broker.connect()
        #expect(broker.shards[0].open(peer: "127.0.0.1:9", wireProtocol: .rsocket, now: broker.now) == nil)
        first.disconnect()
        #expect(broker.shards[0].open(peer: "127.0.0.1:9", wireProtocol: .rsocket, now: broker.now) != nil)
    }

    @Test func subscriptionsAndTopics() {
        // The broker's own topic of events counts as one of the topics.
        let broker = broker {
            $0.subscriptions = 2
            $0.topics = 3
        }
        let client = broker.connect()
        for (stream, topic) in [(1, "a"), (3, "b"), (5, "a")] { client.subscribe(topic, stream: UInt32(stream)) }
        #expect(client.received().map { $0.prefix(7) } == ["5:! 202"])
        client.cancel(stream: 3)
        client.publish("c", "x", stream: 7)
        #expect(client.received().first?.contains("limit: The broker has 3 topics") == true)
        client.subscribe("a", stream: 9)
        #expect(client.received() == [])
    }

    @Test func streamsOfAConnection() {
        let broker = broker { $0.streamsPerConnection = 2 }
        let client = broker.connect()
        for stream in [1, 3, 5] { client.subscribe("t", stream: UInt32(stream)) }
        #expect(client.received().map { $0.prefix(7) } == ["5:! 202"])
    }

    @Test func sizes() {
        let broker = broker {
            $0.payload = 1000
            $0.metadata = 100
            $0.keepaliveData = 10
        }
        let client = broker.connect()
        client.publish("t", String(repeating: "x", count: 1000), stream: 1)
        client.publish("t", String(repeating: "x", count: 1001), stream: 3)
        client.publish(String(repeating: "n", count: 101), "x", stream: 5)
        let lines = client.received()
        #expect(lines.map { $0.prefix(7) } == ["1:1|", "3:! 202", "5:! 202"])
        #expect(lines[1].contains("1000"), "\(lines[1])")
        let long = [UInt8](repeating: 1, count: 11)
        client.send { buffer in
            long.withUnsafeBytes { FrameWriter.keepalive(respond: true, position: 0, data: $0, into: &buffer) }
        }
        #expect(client.received().first?.hasPrefix("0:! 101") == true)
        #expect(client.isClosed)
    }

    @Test func aMessageLargerThanTheLogIsRefused() {
        let broker = broker { $0.retainBytes = 500 }
        let client = broker.connect()
        client.publish("t", String(repeating: "x", count: 500), stream: 1)
        client.publish("t", String(repeating: "x", count: 400), stream: 3)
        #expect(client.received().map { $0.prefix(7) } == ["1:! 202", "3:1|"])
    }

    @Test func setupMustComeInTime() {
        let broker = broker { $0.setupTime = 2 * Limits.second }
        let silent = TestClient(broker, 0)
        broker.advance(seconds: 1.5)
        #expect(!silent.isClosed)
        broker.advance(seconds: 1)
        #expect(silent.received().first?.hasPrefix("0:! 1 ") == true)
        #expect(silent.isClosed)
    }

    @Test func aLifetimeEndsASilentConnection() {
        let broker = broker { $0.lifetime = (2 * Limits.second)...(10 * Limits.second) }
        // Clamped from both sides.
        let short = broker.connect(lifetime: 1)
        let long = broker.connect(lifetime: 1_000_000)
        broker.advance(seconds: 1.75)
        #expect(!short.isClosed)
        #expect(short.received() == ["keepalive? "])
        broker.advance(seconds: 0.75)
        #expect(short.received().first?.hasPrefix("0:! 101 timeout: Nothing was received") == true)
        #expect(short.isClosed && !long.isClosed)
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        for _ in 0..<4 {
            broker.advance(seconds: 6)
            long.send { FrameWriter.keepalive(respond: true, position: 0, data: none, into: &$0) }
        }
        #expect(!long.isClosed)
        broker.advance(seconds: 10.5)
        #expect(long.isClosed)
    }

    @Test func unreadAnswersEndAConnection() {
        let broker = broker {
            $0.controlOutput = 1000
            $0.unreadTime = 3 * Limits.second
        }
        let client = broker.connect()
        client.window = 0
        for stream in 0..<50 { client.subscribe("bad*name", stream: UInt32(2 * stream + 1)) }
        #expect(!client.isRead, "reading continues after unread responses")
        broker.advance(seconds: 2)
        #expect(!client.isClosed)
        broker.advance(seconds: 2)
        #expect(client.isClosed)
    }

    @Test func readingGoesOnWhenAnswersAreRead() {
        let broker = broker { $0.controlOutput = 1000 }
        let client = broker.connect()
        client.window = 0
        for stream in 0..<50 { client.subscribe("bad*name", stream: UInt32(2 * stream + 1)) }
        client.read(.max)
        #expect(client.isRead)
        #expect(client.received().count == 50)
    }

    @Test func aClosingErrorIsGivenLittleTime() {
        let broker = broker { $0.closeTime = Limits.second }
        let client = broker.connect()
        client.window = 0
        client.send { $0.append([0, 0, 1, 0]) }
        #expect(!client.isClosed)
        broker.advance(seconds: 1.5)
        #expect(client.isClosed)
    }

    @Test func fragmentsMustComeToAnEnd() {
        let broker = broker { $0.reassemblyTime = 2 * Limits.second }
        let client = broker.connect()
        // REQUEST_RESPONSE with F set and no end.
        client.send { $0.append([0, 0, 10, 0, 0, 0, 3, 0x11, 0x80, 0, 0, 1, 0x74]) }
        broker.advance(seconds: 1.5)
        #expect(client.received() == [])
        broker.advance(seconds: 1)
        #expect(client.received().first?.hasPrefix("3:! 202") == true)
        #expect(!client.isClosed)
    }

    @Test func publishesThatWaitAreBounded() {
        let broker = broker {
            $0.parked = 100
            $0.parkedCount = 3
            $0.parkTime = 4 * Limits.second
        }
        let subscriber = broker.connect()
        subscriber.subscribe("t?overflow=block&buffer=1", n: 1)
        let publisher = broker.connect()
        publisher.publish("t", "0", stream: 1)
        publisher.publish("t", "1", stream: 3)
        #expect(publisher.received() == ["1:1|", "3:2|"])
        for stream in [5, 7, 9, 11] { publisher.publish("t", "x", stream: UInt32(stream)) }
        #expect(publisher.received().map { $0.prefix(8) } == ["11:! 202"])
        let other = broker.connect()
        other.publish("t", String(repeating: "x", count: 60), stream: 1)
        other.publish("t", String(repeating: "x", count: 60), stream: 3)
        #expect(other.received().map { $0.prefix(7) } == ["3:! 202"])
        broker.advance(seconds: 5)
        #expect(publisher.received().map { $0.prefix(7) } == ["5:! 202", "7:! 202", "9:! 202"])
        publisher.publish("t", "y", stream: 13)
        subscriber.requestN(5)
        #expect(publisher.received() == ["13:3|"])
    }

    @Test func blockingHasALimit() {
        let broker = broker { $0.blockLimit = 3 * Limits.second }
        let stuck = broker.connect()
        let moving = broker.connect()
        stuck.subscribe("t?overflow=block&buffer=2", n: 1)
        moving.subscribe("t?overflow=block&buffer=2", n: 1)
        let publisher = broker.connect()
        for stream in [1, 3, 5, 7] { publisher.publish("t", "\(stream)", stream: UInt32(stream)) }
        #expect(publisher.received() == ["1:1|", "3:2|", "5:3|"])
        for _ in 0..<2 {
            broker.advance(seconds: 2)
            moving.requestN(1)
        }
        #expect(moving.received().count == 3)
        #expect(stuck.received().last?.contains("overflow: blocked too long") == true)
        #expect(publisher.received() == ["7:4|"])
    }

    /// Large messages use up the topic's bytes long before a buffer is full.
    @Test(arguments: [(1, 0), (2, 0), (2, 1)])
    func blockingByBytesHasALimit(_ shards: Int, _ at: Int) {
        var limits = Limits()
        limits.blockLimit = 3 * Limits.second
        limits.retainBytes = 10_000
        let broker = TestBroker(shards: shards, limits: limits)
        let stuck = broker.connect(at)
        stuck.subscribe("t?overflow=block&buffer=1000", n: 1)
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 3000)
        for stream in [1, 3, 5, 7, 9] { publisher.publish("t", text, stream: UInt32(stream)) }
        #expect(publisher.received() == ["1:1|", "3:2|", "5:3|", "7:4|"])
        broker.advance(seconds: 2.5)
        #expect(publisher.received() == [])
        broker.advance(seconds: 1.5)
        #expect(stuck.received().last?.contains("overflow: blocked too long") == true)
        #expect(publisher.received() == ["9:5|"])
    }

    /// A `block` subscription that waits for credit while there is room holds up nobody, however long.
    @Test func onlyAFullBlockingSubscriptionIsLimited() {
        let broker = broker { $0.blockLimit = 2 * Limits.second }
        let patient = broker.connect()
        patient.subscribe("t?overflow=block&buffer=10", n: 1)
        for text in ["a", "b", "c"] { patient.fireAndForget("t", text) }
        broker.advance(seconds: 5)
        patient.requestN(5)
        #expect(patient.received() == ["1:a", "1:b", "1:c"])
    }

    @Test func idleTopicsGo() {
        let broker = broker { $0.topicIdle = 5 * Limits.second }
        let client = broker.connect()
        client.publish("used", "x", stream: 1)
        client.publish("watched", "x", stream: 3)
        client.subscribe("watched", stream: 5)
        broker.advance(seconds: 4)
        client.publish("used", "x", stream: 7)
        broker.advance(seconds: 4)
        #expect(broker.shards[0].topics["used"] != nil)
        broker.advance(seconds: 2)
        #expect(broker.shards[0].topics["used"] == nil)
        #expect(broker.shards[0].topics["watched"] != nil)
        #expect(broker.shards[0].topics.all.contains { $0.name == "used" } == false)
        client.cancel(stream: 5)
        broker.advance(seconds: 4)
        #expect(broker.shards[0].topics["watched"] != nil)
        broker.advance(seconds: 2)
        #expect(broker.shards[0].topics["watched"] == nil)
    }

    @Test func oldMessagesAreForgotten() {
        let broker = broker { $0.retainAge = 5 * Limits.second }
        let client = broker.connect()
        client.publish("t", "old", stream: 1)
        broker.advance(seconds: 4)
        client.publish("t", "new", stream: 3)
        broker.advance(seconds: 2)
        _ = client.received()
        client.subscribe("t?replay=all", stream: 5)
        #expect(client.received() == ["5:new"])
    }

    @Test func memoryIsTakenFromHistoryFirst() {
        let broker = broker {
            $0.memory = 1 << 20
            $0.retain = 1_000_000
        }
        let client = broker.connect()
        let text = String(repeating: "x", count: 1000)
        for _ in 0..<500 { client.fireAndForget("a", text) }
        for _ in 0..<3000 { client.fireAndForget("b", text) }
        #expect(broker.memory.used <= (1 << 20) + Chunk.largest * 2)
        // The newer topic has continued, at the cost of both topics' history.
        #expect(broker.shards[0].topics["b"]!.published == 3000)
        #expect(broker.shards[0].topics["a"]!.log.bytes < 300_000)
    }

    @Test func withoutHistoryToGivePublishesAreRefused() {
        let broker = broker {
            $0.memory = 1 << 20
            $0.retain = 10
        }
        let stalled = broker.connect()
        stalled.subscribe("t?buffer=1000000&overflow=block", n: 1)
        let client = broker.connect()
        let text = String(repeating: "x", count: 10_000)
        var refused = 0
        for index in 0..<500 {
            client.publish("t", text, stream: UInt32(2 * index + 1))
            if client.received().first?.contains("limit: The broker's memory") == true { refused += 1 }
        }
        #expect(refused > 300)
        #expect(broker.memory.used <= (1 << 20) + Chunk.largest * 2)
        // Other topics are within their share.
        client.publish("small", "x", stream: 2001)
        #expect(client.received() == ["2001:1|"])
        stalled.requestN(1000)
        broker.advance(seconds: 1)
        client.publish("t", text, stream: 2003)
        #expect(client.received().first?.hasPrefix("2003:! ") == false)
    }
}
