// Whose memory is freed, and when: history under pressure, on every shard; parked publishes; deleted topics.

import Bytes
import ForebayWire
import Replay
import RSocket
import Testing

@testable import Core

@Suite struct MemoryTests {
    /// The name of a topic that `shard` owns.
    private func name(_ broker: TestBroker, ownedBy shard: Int, _ prefix: String = "t") -> String {
        (0...).lazy.map { "\(prefix)\($0)" }.first { broker.shards[0].owner(of: $0) == shard }!
    }

    private func fill(_ client: TestClient, _ topic: String, _ count: Int, size: Int = 1000) {
        let text = String(repeating: "x", count: size)
        for _ in 0..<count { client.fireAndForget(topic, text) }
    }

    @Test func theLeastUsedHistoryGoesFirst() {
        var limits = Limits()
        limits.memory = 4 << 20
        limits.retain = 1_000_000
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        fill(client, "old", 1000)
        broker.advance(seconds: 1)
        fill(client, "young", 1000)
        broker.advance(seconds: 1)
        client.fireAndForget("old", "used again")
        broker.advance(seconds: 1)
        fill(client, "new", 2000)
        let topics = broker.shards[0].topics
        #expect(topics["young"]!.log.bytes == 0, "the least used")
        #expect(topics["old"]!.log.window.count == 1001)
    }

    @Test(arguments: [(0, 0), (0, 1), (1, 0)])
    func forgottenHistoryIsFreedOnEveryShard(_ at: Int, _ owner: Int) {
        var limits = Limits()
        limits.memory = 4 << 20
        limits.retain = 1_000_000
        let broker = TestBroker(shards: 2, limits: limits)
        let quiet = name(broker, ownedBy: owner)
        let client = broker.connect(at)
        client.subscribe(quiet)
        fill(client, quiet, 2000)
        #expect(broker.memory.used > 1 << 20)
        broker.shards[owner].topics[quiet]!.relieve(now: broker.now)
        broker.run()
        _ = client.received()
        // What remains is a spare block or two.
        #expect(broker.memory.used < 200_000, "\(broker.memory.used)")
        client.fireAndForget(quiet, "on")
        #expect(client.received() == ["1:on"])
    }

    @Test func messagesThatWaitAreKeptUnderPressure() {
        let broker = TestBroker(shards: 2)
        let topic = name(broker, ownedBy: 1)
        let client = broker.connect(0)
        client.subscribe("\(topic)?meta=on", n: 1)
        for text in ["a", "b", "c"] { client.fireAndForget(topic, text) }
        broker.shards[1].topics[topic]!.relieve(now: broker.now)
        broker.run()
        client.subscribe("\(topic)?replay=all&meta=on", stream: 3)
        client.requestN(5)
        #expect(client.received() == ["1:[1]a", "1:[2]b", "1:[3]c"])
    }

    /// If a `block` subscription holds the memory, a topic below its share is given memory beyond the limit, but at
    /// most a quarter of the limit.
    @Test(arguments: [(111, true), (150, false)])
    func sharesAreGivenUpToAFourthBeyondTheLimit(percent: Int, isTaken: Bool) {
        let broker = TestBroker()
        let client = broker.connect()
        client.subscribe("t?buffer=1000&overflow=block", n: 1)
        fill(client, "t", 300)
        broker.memory.limit = broker.memory.used * 100 / percent
        let other = broker.connect()
        other.publish("new", "x")
        #expect((other.received() == ["3:1|"]) == isTaken)
    }

    /// The part of a message received for a stream that ended is not counted until the connection has a socket again.
    @Test func halfAMessageOfAStreamThatEndedIsNotCounted() {
        let broker = TestBroker()
        let client = ResumingClient(broker)
        client.request("a", "1") {
            FrameWriter.requestChannel(
                stream: 1, initialN: 9, complete: false, metadata: $0, data: $1, fragment: 0, into: &$2)
        }
        var frames = ByteBuffer()
        [UInt8](repeating: 120, count: 60_000).withUnsafeBytes {
            FrameWriter.payload(
                stream: 1, next: true, complete: false, metadata: nil, data: $0, fragment: 40_000, into: &frames)
        }
        client.send { $0.append(frames.readable.slice(0..<3 + frames.readable.u24(at: 0))) }
        client.lose()
        let before = broker.memory.used
        broker.connect().publish("$SYS.topic.delete?name=a", "")
        broker.advance(seconds: 0.5)
        #expect(broker.shards[0].currentCounters().detached == 1)
        #expect(broker.memory.used < before - 30_000)
    }

    /// Messages for a new subscription are kept from its first moment on, although the topic's owner does not know of
    /// the subscription yet.
    @Test func aNewcomersMessagesAreKeptUnderPressure() {
        let broker = TestBroker()
        let reader = broker.connect()
        reader.subscribe("t")
        for text in ["a", "b", "c"] { reader.fireAndForget("t", text) }
        fill(reader, "history", 200)
        let client = broker.connect()
        broker.memory.limit = broker.memory.used + 2000
        client.send { buffer in
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            Array("t?replay=all&meta=on".utf8).withUnsafeBytes {
                FrameWriter.requestStream(stream: 1, initialN: 1, metadata: $0, data: none, fragment: 0, into: &buffer)
            }
            // The first of these publishes uses up the memory, so history is dropped at once.
            for stream: UInt32 in [3, 5] {
                Array("other".utf8).withUnsafeBytes {
                    FrameWriter.requestFNF(stream: stream, metadata: $0, data: none, fragment: 0, into: &buffer)
                }
            }
        }
        client.requestN(5)
        #expect(client.received() == ["1:[1]a", "1:[2]b", "1:[3]c"])
    }

    @Test func oldMessagesAreForgottenOnEveryShard() {
        var limits = Limits()
        limits.retainAge = 5 * Limits.second
        let broker = TestBroker(shards: 2, limits: limits)
        let topic = name(broker, ownedBy: 1)
        let client = broker.connect(0)
        client.subscribe(topic)
        client.fireAndForget(topic, "old")
        broker.advance(seconds: 6)
        client.subscribe("\(topic)?replay=all", stream: 3)
        client.fireAndForget(topic, "new")
        #expect(client.received().sorted() == ["1:new", "1:old", "3:new"])
    }

    @Test func manySmallTopicsGiveBackTheirLastChunks() {
        var limits = Limits()
        limits.memory = 1 << 20
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        var refused = 0
        for topic in 0..<200 {
            for index in 0..<20 {
                client.publish("t\(topic)", String(repeating: "x", count: 1000), stream: UInt32(2 * index + 1))
            }
            refused += client.received().count { !$0.hasSuffix("|") }
        }
        #expect(refused == 0)
        #expect(broker.memory.used <= limits.memory + Chunk.largest)
    }

    /// Subscriptions without credit that wait for messages of deleted topics cannot fill the memory with them.
    @Test func deletedTopicsCountAsMemory() {
        var limits = Limits()
        limits.memory = 1 << 20
        let broker = TestBroker(limits: limits)
        let stalled = broker.connect()
        let client = broker.connect()
        for round in 0..<20 {
            stalled.subscribe("t?buffer=1000000", n: 1, stream: UInt32(2 * round + 1))
            fill(client, "t", 300)
            client.publish("$SYS.topic.delete?name=t", "")
        }
        // The limit, what may be given beyond it, the chunk that exceeds that, and a few spare blocks.
        let most = limits.memory + limits.memory / MemoryRelief.overshoot + Chunk.largest + 4 * Block.size
        #expect(broker.memory.used < most, "\(broker.memory.used)")
        stalled.disconnect()
        broker.advance(seconds: 1)
        #expect(broker.shards[0].topics.all.allSatisfy { TopicName.isSystem($0.name) })
        #expect(broker.memory.used < 200_000)
    }

    @Test func aChannelIsGrantedMoreOnceThereIsMemory() {
        var limits = Limits()
        limits.memory = 1 << 20
        limits.grant = 1
        limits.retain = 10
        let broker = TestBroker(limits: limits)
        let stalled = broker.connect()
        stalled.subscribe("full?buffer=1000000&overflow=block", n: 1)
        fill(stalled, "full", 700)
        let publisher = broker.connect()
        stalled.subscribe("t?buffer=1000000&overflow=block", n: 1, stream: 3)
        publisher.channel("t", String(repeating: "x", count: 1000))
        var credit = 0
        func read() { credit += publisher.received().count { $0 == "5:+1" } }
        read()
        while credit > 0 {
            publisher.items([String(repeating: "x", count: 1000)])
            credit -= 1
            read()
        }
        #expect(broker.memory.used > limits.memory)
        stalled.cancel(stream: 1)
        broker.advance(seconds: 1)
        #expect(broker.memory.used < limits.memory)
        read()
        #expect(credit == 1)
    }

    @Test func parkedPublishesAndFragmentsAreMemory() {
        let broker = TestBroker()
        let subscriber = broker.connect()
        subscriber.subscribe("t?overflow=block&buffer=1", n: 1)
        let publisher = broker.connect()
        for stream in [1, 3] { publisher.publish("t", "x", stream: UInt32(stream)) }
        let before = broker.memory.used
        let text = String(repeating: "x", count: 10_000)
        for stream in stride(from: 5, to: 25, by: 2) { publisher.publish("t", text, stream: UInt32(stream)) }
        #expect(broker.memory.used >= before + 100_000)
        for stream in stride(from: 5, to: 25, by: 4) { publisher.cancel(stream: UInt32(stream)) }
        #expect(broker.memory.used < before + 60_000)
        // A frame of 10,000 bytes, half of which arrives.
        publisher.send { buffer in
            buffer.append([0, 39, 16, 0, 0, 0, 99, 0x10, 0])
            buffer.append([UInt8](repeating: 1, count: 5000))
        }
        #expect(broker.memory.used >= before + 55_000)
        publisher.disconnect()
        subscriber.disconnect()
        #expect(broker.memory.used <= before)
    }
}
