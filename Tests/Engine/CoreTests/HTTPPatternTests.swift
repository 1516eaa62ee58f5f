// Subscriptions to patterns over gRPC and plain HTTP: topics by name under one credit, windows, ends, and that nothing
// remains of them.

import Bytes
import ForebayWire
import HTTP2
import HTTP2Frames
import Testing

@testable import Core

extension TestResponse {
    /// The topics and payloads of its messages.
    var named: [String] { messages.map { "\($0.topic):\($0.text)" } }
}

@Suite struct HTTPPatternTests {
    private func expectNothingLeft(_ broker: TestBroker) {
        for shard in broker.shards {
            #expect(shard.connections.count == 0 && shard.streams.count == 0 && shard.subscriptions.count == 0)
            #expect(shard.views.count == 0)
        }
        #expect(broker.quotas.patterns.value == 0 && broker.quotas.subscriptions.value == 0)
    }

    @Test(arguments: DeliveryTests.placements)
    func messagesNameTheirTopics(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        publish(broker, "before", to: ["orders.eu", "orders.us", "other.eu"], shard: from)
        let peer = TestGRPC(broker, at)
        let stream = peer.subscribe("orders.*", n: 100)
        // The answer comes before any message.
        let opening = peer[stream].responses()
        #expect(opening.count == 1 && opening[0].messages.isEmpty)
        #expect(opening[0].outstanding == 100 && opening[0].epoch == 0)
        publish(broker, "x", to: ["orders.eu", "orders.us", "other.eu", "orders.asia", "orders"], shard: from)
        publish(broker, "y", to: ["orders.eu"], shard: from)
        peer.read()
        let responses = peer[stream].responses()
        #expect(
            responses.flatMap(\.named).sorted() == ["orders.asia:x", "orders.eu:x", "orders.eu:y", "orders.us:x"])
        #expect(responses.allSatisfy { $0.epoch > 0 && $0.dropped == 0 && $0.messages.count == 1 })
        #expect(Set(responses.map(\.epoch)).count == 3)
        #expect(responses.map(\.outstanding).sorted() == [96, 97, 98, 99])
        #expect(responses.flatMap { $0.messages.map(\.sequence) }.sorted() == [1, 2, 2, 3])
        // An ordinary subscription shares nothing with it.
        let plain = peer.subscribe("orders.eu", all: true)
        #expect(peer[plain].responses().flatMap(\.named) == [":before", ":x", ":y"])
    }

    @Test(arguments: DeliveryTests.placements)
    func whatTopicsRetainComesAfterTheAnswer(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        for text in ["1", "2"] { publish(broker, text, to: ["t.a", "t.b", "t.c"], shard: from) }
        let peer = TestGRPC(broker, at)
        let stream = peer.subscribe("t.>", all: true)
        peer.read()
        let responses = peer[stream].responses()
        #expect(responses.first?.messages.isEmpty == true && responses.first?.outstanding == SubscribeTail.unbounded)
        let expected = ["a", "b", "c"].flatMap { topic in [1, 2].map { "t.\(topic):\($0)" } }
        #expect(responses.flatMap(\.named).sorted() == expected)
    }

    @Test(arguments: DeliveryTests.placements)
    func topicsTakeTurnsUnderOneCredit(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let peer = TestGRPC(broker, at)
        let stream = peer.subscribe("t.*", n: 1)
        for text in 1...4 { publish(broker, "\(text)", to: ["t.busy"], shard: from) }
        publish(broker, "1", to: ["t.quiet"], shard: from)
        peer.read()
        #expect(peer[stream].responses().flatMap(\.named) == ["t.busy:1"])
        peer.request(2, stream)
        let responses = peer[stream].responses()
        #expect(responses.flatMap(\.named) == ["t.busy:2", "t.quiet:1"])
        #expect(responses.map(\.outstanding) == [1, 0])
        peer.request(10, stream)
        #expect(peer[stream].responses().flatMap(\.named) == ["t.busy:3", "t.busy:4"])
        peer.request(0, stream)
        #expect(peer[stream].status == "3" && peer[stream].isEnded)
        #expect(peer[stream].message?.contains("request_n") == true)
        peer.client.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    @Test(arguments: DeliveryTests.placements)
    func lossesAreThoseOfTheTopic(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let peer = TestGRPC(broker, at)
        let stream = peer.subscribe("t.*", n: 1, buffer: 2)
        for text in 1...5 { publish(broker, "\(text)", to: ["t.a"], shard: from) }
        for text in 1...2 { publish(broker, "\(text)", to: ["t.b"], shard: from) }
        peer.request(100, stream)
        let responses = peer[stream].responses().dropFirst()
        #expect(responses.flatMap(\.named) == ["t.a:1", "t.a:4", "t.b:1", "t.a:5", "t.b:2"])
        #expect(responses.map(\.dropped) == [0, 2, 0, 0, 0])
    }

    @Test(arguments: DeliveryTests.placements)
    func anOverflowNamesTheTopic(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let peer = TestGRPC(broker, at)
        let stream = peer.subscribe("t.*", n: 1, buffer: 1, overflow: .fail)
        for text in 1...3 { publish(broker, "\(text)", to: ["t.a"], shard: from) }
        peer.request(100, stream)
        #expect(peer[stream].responses().flatMap(\.named) == ["t.a:1", "t.a:2"])
        #expect(peer[stream].status == "8" && peer[stream].end == "overflow")
        #expect(peer[stream].message == "overflow: topic 't.a': the buffer of 1 message was full")
        publish(broker, "1", to: ["t.b"], shard: from)
        peer.client.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    @Test(arguments: DeliveryTests.placements)
    func halfCloseEndsOnceTheCreditIsSpent(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let peer = TestGRPC(broker, at)
        let stream = peer.subscribe("t.*", n: 3)
        publish(broker, "1", to: ["t.a"], shard: from)
        peer.halfClose(stream)
        #expect(peer[stream].responses().flatMap(\.named) == ["t.a:1"] && !peer[stream].isEnded)
        publish(broker, "2", to: ["t.a", "t.b", "t.c"], shard: from)
        peer.read()
        #expect(peer[stream].responses().flatMap(\.named).count == 2)
        #expect(peer[stream].status == "0" && peer[stream].end == "credit-spent" && peer[stream].isEnded)
        // The credit is spent before the client half-closes.
        let spent = peer.subscribe("t.*", n: 2, all: true)
        #expect(peer[spent].responses().flatMap(\.named).count == 2 && !peer[spent].isEnded)
        peer.halfClose(spent)
        #expect(peer[spent].end == "credit-spent")
        // The call is half-closed with its first message.
        let short = peer.call(.subscribe)
        peer.sendMessage(short, TestGRPC.open("t.*", n: 1, all: true), end: true)
        #expect(peer[short].responses().flatMap(\.named).count == 1 && peer[short].end == "credit-spent")
        peer.client.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    @Test(arguments: [
        (TestGRPC.open("t.*", overflow: .block), "3", "overflow=block is not allowed for a pattern"),
        (TestGRPC.open("t.*", from: 3), "3", "from is not allowed for a pattern"),
        (TestGRPC.open("t.*", opening: true), "3", "opening=on is not allowed"),
        (TestGRPC.open("t.>.x"), "3", "'>' is not the last token"),
        (TestGRPC.open("t.*", n: 0), "3", "request_n"),
    ])
    func whatAPatternCannotBeIsInvalid(_ open: [UInt8], _ status: String, _ reason: String) {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let stream = peer.call(.subscribe)
        peer.sendMessage(stream, open)
        #expect(peer[stream].status == status && peer[stream].message?.contains(reason) == true)
        peer.client.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    @Test func tooManyMatchesAreRefusedBeforeAnyAnswer() {
        var limits = Limits()
        limits.matches = 3
        let broker = TestBroker(shards: 2, limits: limits)
        publish(broker, "x", to: (1...4).map { "t.\($0)" })
        let peer = TestGRPC(broker, 1)
        let stream = peer.subscribe("t.*", all: true)
        #expect(peer[stream].status == "8" && peer[stream].heads.count == 1 && peer[stream].messages.isEmpty)
        #expect(peer[stream].message?.contains("More than 3 topics match 't.*'") == true)
    }

    /// Windows close, with messages of several topics waiting, and open again.
    @Test(arguments: DeliveryTests.placements)
    func aClosedWindowStopsAllTopicsUntilItOpens(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let peer = TestGRPC(broker, at, window: 1000, connectionWindow: 1 << 20)
        let stream = peer.subscribe("t.*")
        peer.read()
        peer.closed = [stream]
        let other = peer.subscribe("t.*")
        let topics = (0..<7).map { "t.\($0)" }
        let text = String(repeating: "x", count: 300)
        for _ in 0..<10 {
            publish(broker, text, to: topics, shard: from)
            peer.read()
            #expect((peer.exchange(stream)?.body.count ?? 0) <= 1000 + 500 && peer.connection!.output.count == 0)
        }
        #expect(peer[other].texts().count == 70 && peer[stream].texts().count < 5)
        // Little by little, then all.
        for _ in 0..<5 {
            peer.send(windowUpdate(stream, 400))
            peer.read()
        }
        #expect(peer[stream].messages.count > 4 && peer[stream].messages.count < 15)
        peer.closed = []
        peer.send(windowUpdate(stream, 1 << 20))
        peer.read()
        #expect(peer[stream].messages.count == 71)
        let responses = peer[stream].messages.map { TestResponse($0) }
        for topic in topics {
            let own = responses.flatMap(\.messages).filter { $0.topic == topic }
            #expect(own.map(\.sequence) == Array(1...10))
        }
        #expect(responses.allSatisfy { $0.dropped == 0 })
    }

    /// Messages longer than their windows wait for each other; all arrive.
    @Test func longMessagesBeyondTheWindowsAllArrive() {
        var limits = Limits()
        limits.beyondWindows = 100_000
        let broker = TestBroker(limits: limits)
        let peer = TestGRPC(broker, window: 1000, connectionWindow: 1 << 20)
        let streams = (0..<4).map { _ in peer.subscribe("t.*") }
        peer.read()
        peer.closed = Set(streams)
        let text = String(repeating: "x", count: 60_000)
        for _ in 0..<3 { publish(broker, text, to: ["t.a", "t.b", "t.c"]) }
        peer.read()
        peer.closed = []
        for stream in streams { peer.send(windowUpdate(stream, 1 << 20)) }
        for _ in 0..<10 {
            peer.read()
            broker.advance(seconds: 1)
        }
        peer.read()
        for stream in streams {
            let names = peer[stream].responses().flatMap(\.messages).map(\.topic).sorted()
            #expect(names == ["t.a", "t.a", "t.a", "t.b", "t.b", "t.b", "t.c", "t.c", "t.c"])
        }
    }

    /// The output is short, sockets take any part, and credit comes in pieces.
    @Test(arguments: 0..<30) func everyPartOfAWriteGoesOn(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed))
        var limits = Limits()
        limits.output = random.pick([100, 3000, 256 << 10])
        let broker = TestBroker(shards: 1 + random.next(3), limits: limits)
        let at = random.next(broker.shards.count)
        let peer = TestGRPC(broker, at, window: random.pick([1000, 65_535, 1 << 30]), connectionWindow: 1 << 30)
        let streams = (0..<2).map { _ in peer.subscribe("t.*", n: 5, buffer: 10_000) }
        peer.client.window = 0
        var sent: [String: [String]] = [:]
        let publisher = broker.connect()
        for index in 0..<100 {
            let topic = "t.\(random.next(5))"
            let text = "\(index)." + String(repeating: "w", count: random.pick([0, 10, 700, 20_000]))
            sent[topic, default: []].append(text)
            publisher.publish(topic, text, stream: UInt32(2 * index + 1))
            if random.next(4) == 0 { peer.client.window = random.next(50) }
            if random.next(4) == 0 { peer.request(UInt32(1 + random.next(5)), streams[random.next(2)]) }
            peer.client.read(random.pick([1, 2, 9, 10, 500, 17_000]))
            peer.read()
        }
        for stream in streams { peer.request(0x7FFF_FFFF, stream) }
        peer.client.read(.max)
        peer.read()
        for stream in streams {
            let messages = peer[stream].responses().flatMap(\.messages)
            #expect(messages.count == 100)
            for (topic, texts) in sent { #expect(messages.filter { $0.topic == topic }.map(\.text) == texts) }
        }
    }

    /// The client cancels, or its connection is lost, with more cursors than are removed at a time.
    @Test(arguments: [1, 3], [false, true]) func nothingRemainsOfManyCursors(_ shards: Int, _ cancels: Bool) {
        let broker = TestBroker(shards: shards)
        let topics = (0..<300).map { "t.\($0)" }
        for window: UInt32 in [65_535, 50] {
            let peer = TestGRPC(broker, shards - 1, window: window)
            let stream = peer.subscribe("t.*", n: 10)
            peer.opensWindows = window > 50
            for _ in 0..<2 { publish(broker, "abcdefghijklmnopqrstuvwxyz", to: topics) }
            peer.read()
            let cursors = broker.shards[shards - 1].views.attached.reduce(0) { $0 + $1.members.count }
            #expect(cursors == 300)
            if cancels {
                peer.cancel(stream)
                #expect(peer.http!.exchanges.count == 0 && peer.exchange(stream) == nil)
                publish(broker, "after", to: topics)
                #expect(peer.http!.bodies.memory == 0 && peer.http!.held.bytes == 0)
            }
            peer.client.disconnect()
            publish(broker, "after", to: topics)
            broker.advance(seconds: 1)
            expectNothingLeft(broker)
        }
    }

    @Test func topicsMayEndAndComeBack() {
        let broker = TestBroker(shards: 2)
        let control = broker.connect()
        let peer = TestGRPC(broker, 1)
        let stream = peer.subscribe("t.*")
        publish(broker, "old", to: ["t.a"])
        control.publish("$SYS.topic.delete?name=t.a", "", stream: 1)
        publish(broker, "new", to: ["t.a"])
        peer.read()
        let responses = peer[stream].responses().dropFirst()
        #expect(responses.flatMap(\.named) == ["t.a:old", "t.a:new"])
        #expect(Set(responses.map(\.epoch)).count == 2 && !peer[stream].isEnded)
    }
}
