// Subscriptions over gRPC: credit, windows, order, ends, and that nothing remains of them.

import Bytes
import ForebayWire
import HTTP2
import HTTP2Frames
import Testing

@testable import Core

@Suite struct HTTPSubscribeTests {
    private func publish(_ broker: TestBroker, _ texts: [String], to topic: String = "t", shard: Int = 0) {
        let client = broker.connect(shard)
        for (index, text) in texts.enumerated() { client.publish(topic, text, stream: UInt32(2 * index + 1)) }
        client.disconnect()
    }

    private func numbers(_ range: ClosedRange<Int>) -> [String] { range.map(String.init) }

    /// Engines without connections hold only topics and spare blocks.
    private func expectNothingLeft(_ broker: TestBroker) {
        for shard in broker.shards {
            #expect(shard.connections.count == 0 && shard.streams.count == 0 && shard.subscriptions.count == 0)
        }
        let logs = broker.shards.flatMap(\.topics.all).reduce(0) {
            $0 + $1.log.memory + $1.publishers.current.parked.memory
        }
        let caches = broker.shards.flatMap(\.views.attached).reduce(0) { $0 + $1.entries.memory }
        let spare = broker.shards.count * BlockPool.spares * Block.size
        #expect(caches == 0 && broker.memory.used <= logs + spare, "\(broker.memory.used), logs \(logs)")
    }

    @Test func noMoreThanWasAskedForIsDelivered() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let stream = peer.subscribe("t", n: 3)
        publish(broker, numbers(1...10))
        peer.read()
        var responses = peer[stream].responses()
        #expect(responses.flatMap { $0.messages.map(\.text) } == ["1", "2", "3"])
        #expect(responses.last?.outstanding == 0 && responses.allSatisfy { $0.epoch > 0 })
        peer.request(2, stream)
        responses = peer[stream].responses()
        #expect(responses.flatMap { $0.messages.map(\.sequence) } == [4, 5] && responses.last?.outstanding == 0)
        peer.request(0x7FFF_FFFF, stream)
        responses = peer[stream].responses()
        #expect(responses.flatMap { $0.messages.map(\.text) } == numbers(6...10))
        #expect(responses.last?.outstanding == SubscribeTail.unbounded)
        #expect(peer[stream].heads.first?[":status"] == "200" && !peer[stream].isEnded)
    }

    /// The head of the response has not been sent when the messages are delivered.
    @Test func aCompletedTopicIsReplayedBeforeItsEnd() {
        let broker = TestBroker()
        let holder = broker.connect()
        holder.subscribe("t")
        publish(broker, ["a", "b"])
        holder.publish("$SYS.topic.complete?name=t", "", stream: 3)
        let peer = TestGRPC(broker)
        let stream = peer.subscribe("t", all: true)
        #expect(peer[stream].texts() == ["a", "b"])
        #expect(peer[stream].status == "0" && peer[stream].end == "completed" && peer[stream].isEnded)
    }

    @Test func aFailedTopicEndsWithAborted() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let stream = peer.subscribe("t", n: 1)
        publish(broker, ["a", "b"])
        broker.connect().publish("$SYS.topic.fail?name=t&message=broken", "", stream: 1)
        peer.read()
        #expect(peer[stream].texts() == ["a"] && !peer[stream].isEnded)
        peer.request(1, stream)
        #expect(peer[stream].texts() == ["b"] && peer[stream].status == "10" && peer[stream].end == "failed")
        #expect(peer[stream].message?.hasPrefix("topic failed:") == true)
    }

    @Test func aGapThatFailsIsAnsweredInTheHead() {
        var limits = Limits()
        limits.retain = 2
        let broker = TestBroker(limits: limits)
        let holder = broker.connect()
        holder.subscribe("t")
        publish(broker, numbers(1...10))
        let peer = TestGRPC(broker)
        let stream = peer.subscribe("t", from: 3, gapFails: true)
        #expect(peer[stream].status == "9" && peer[stream].heads.count == 1 && peer[stream].isEnded)
    }

    @Test func halfCloseEndsOnceTheCreditIsSpent() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let stream = peer.subscribe("t", n: 3)
        publish(broker, ["a"])
        peer.halfClose(stream)
        #expect(peer[stream].texts() == ["a"] && !peer[stream].isEnded)
        publish(broker, ["b", "c", "d"])
        peer.read()
        #expect(peer[stream].texts() == ["b", "c"] && peer[stream].status == "0" && peer[stream].end == "credit-spent")
        let spent = peer.subscribe("t", n: 2, all: true)
        peer.halfClose(spent)
        #expect(peer[spent].texts() == ["a", "b"] && peer[spent].end == "credit-spent")
        peer.client.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    /// A stream with a closed window holds what its window allowed, and one more message; other streams continue.
    @Test(arguments: Overflow.allCases) func aClosedWindowStopsItsStreamAlone(_ policy: Overflow) {
        let broker = TestBroker()
        let peer = TestGRPC(broker, window: 1000, connectionWindow: 1 << 20)
        let stalled = peer.subscribe("t", buffer: 5, overflow: policy)
        // The subscription is confirmed, and the confirmation read.
        peer.read()
        let opening = peer[stalled].received
        peer.closed = [stalled]
        let other = peer.subscribe("t")
        let elsewhere = TestGRPC(broker)
        let third = elsewhere.subscribe("t")
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 300)
        for index in 0..<200 {
            publisher.publish("t", "\(index).\(text)", stream: UInt32(2 * index + 1))
            peer.read()
            elsewhere.read()
            let exchange = peer.exchange(stalled)
            #expect((exchange?.body.count ?? 0) <= 1000 + 500 && peer.connection!.output.count == 0)
        }
        #expect(peer[stalled].received == opening + 1000)
        let accepted = policy == .block ? peer[other].messages.count - 1 : 200
        // Three messages fit the window, one of them in part; five wait.
        #expect(policy != .block || (accepted >= 8 && accepted <= 9), "\(accepted)")
        #expect(peer[other].texts().count == accepted && elsewhere[third].texts().count == accepted)
        // The window opens.
        peer.closed = []
        peer.send(windowUpdate(stalled, 1 << 20))
        peer.read()
        let responses = peer[stalled].responses()
        let sequences = responses.flatMap { $0.messages.map(\.sequence) }
        #expect(sequences == sequences.sorted() && Set(sequences).count == sequences.count)
        let reported = responses.reduce(0) { $0 + $1.dropped }
        switch policy {
        case .block:
            #expect(sequences == (1...UInt64(sequences.count)).map { $0 } && reported == 0)
            broker.advance(seconds: 1)
            peer.read()
            #expect(sequences.count + peer[stalled].texts().count == 200)
        case .fail:
            #expect(peer[stalled].status == "8" && peer[stalled].end == "overflow")
            #expect(peer[stalled].message?.hasPrefix("overflow:") == true)
            #expect(sequences == (1...UInt64(sequences.count)).map { $0 })
        default:
            #expect(
                peer[stalled].status == nil && UInt64(sequences.count) + reported + behind(policy, sequences) == 200)
            #expect(policy == .dropNewest || sequences.last == 200)
        }
        peer.client.disconnect()
        elsewhere.client.disconnect()
        publisher.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    /// The number of messages lost after the last delivery; they are reported with the next delivery.
    private func behind(_ policy: Overflow, _ sequences: [UInt64]) -> UInt64 {
        policy == .dropNewest ? 200 - (sequences.last ?? 0) : 0
    }

    @Test func theConnectionsWindowStopsAllItsStreamsAndAllGoOn() {
        let broker = TestBroker()
        let peer = TestGRPC(broker, window: 1 << 30)
        peer.opensWindows = false
        let streams = (0..<5).map { _ in peer.subscribe("t", buffer: 1000) }
        let text = String(repeating: "y", count: 1000)
        publish(broker, (0..<300).map { "\($0).\(text)" })
        peer.read()
        #expect(peer.calls.values.reduce(0) { $0 + $1.received } == 65_535)
        for stream in streams { #expect(peer.exchange(stream)!.body.count <= 65_535 + 1100) }
        #expect(peer.connection!.outputWaiterCount == 0 && peer.connection!.output.count == 0)
        peer.opensWindows = true
        peer.send(windowUpdate(0, 1 << 20))
        peer.read()
        for stream in streams {
            #expect(peer[stream].texts().map { $0.prefix { $0 != "." } } == (0..<300).map { "\($0)"[...] })
        }
    }

    @Test func aMessageLargerThanAllWindowsArrives() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let stream = peer.subscribe("t", n: 2)
        let large = String(repeating: "z", count: 1_000_000)
        publish(broker, [large, "small"])
        peer.read()
        let texts = peer[stream].texts()
        #expect(texts == [large, "small"])
    }

    /// Sockets may split the entries that several subscribers share at any point.
    @Test(arguments: 0..<30) func everyPartOfAWriteGoesOn(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed))
        var limits = Limits()
        limits.output = random.pick([100, 3000, 256 << 10])
        let broker = TestBroker(limits: limits)
        let peers = (0..<3).map { _ in TestGRPC(broker, window: 1 << 30, connectionWindow: 1 << 30) }
        let streams = peers.map { peer in (0..<2).map { _ in peer.subscribe("t", buffer: 10_000) } }
        let publisher = broker.connect()
        for peer in peers { peer.client.window = 0 }
        var sent: [String] = []
        for index in 0..<100 {
            let text = "\(index)." + String(repeating: "w", count: random.pick([0, 10, 700, 20_000]))
            sent.append(text)
            publisher.publish("t", text, stream: UInt32(2 * index + 1))
            for peer in peers {
                if random.next(4) == 0 { peer.client.window = random.next(50) }
                peer.client.read(random.pick([1, 2, 9, 10, 500, 17_000]))
                peer.read()
            }
        }
        for (peer, streams) in zip(peers, streams) {
            peer.client.read(.max)
            peer.read()
            for stream in streams { #expect(peer[stream].texts() == sent) }
        }
    }

    @Test func aSocketCutAtEveryByteLosesNothing() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let other = TestGRPC(broker)
        let streams = [peer.subscribe("t"), peer.subscribe("t")]
        let third = other.subscribe("t")
        peer.client.window = 0
        publish(broker, numbers(1...20))
        other.read()
        #expect(other[third].texts() == numbers(1...20))
        for _ in 0..<2000 {
            peer.client.read(1)
            peer.read()
        }
        for stream in streams { #expect(peer[stream].texts() == numbers(1...20)) }
    }

    @Test func whoResetsLeavesNothing() {
        let broker = TestBroker()
        let peer = TestGRPC(broker, window: 10)
        peer.opensWindows = false
        for _ in 0..<50 {
            let stream = peer.subscribe("t")
            publish(broker, ["abcdefghijklmnopqrstuvwxyz"])
            peer.read()
            #expect(peer.exchange(stream)!.body.count > 0)
            peer.cancel(stream)
            #expect(peer.http!.exchanges.count == 0 && peer.exchange(stream) == nil)
            #expect(broker.shards[0].streams.count == 0 && broker.shards[0].subscriptions.count == 0)
        }
        #expect(peer.http!.bodies.memory == 0 && peer.http!.held.bytes == 0)
        peer.client.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    @Test func aLostConnectionLeavesNothing() {
        let broker = TestBroker(shards: 2)
        let holder = broker.connect(0)
        holder.subscribe("t")
        for _ in 0..<20 {
            let peer = TestGRPC(broker, 1, window: 100)
            peer.opensWindows = false
            for index in 0..<20 { _ = peer.subscribe("t\(index % 2 == 0 ? "" : "2")", all: true) }
            publish(broker, (0..<5).map { "\($0)." + String(repeating: "v", count: 30_000) })
            peer.read()
            peer.client.disconnect()
        }
        holder.disconnect()
        broker.advance(seconds: 1)
        expectNothingLeft(broker)
    }

    @Test(arguments: [0, 1]) func otherShardsTopicsAreDeliveredAlike(_ shard: Int) {
        let broker = TestBroker(shards: 2)
        let peer = TestGRPC(broker, shard)
        let first = peer.subscribe("t", n: 7)
        publish(broker, numbers(1...10), shard: 0)
        publish(broker, numbers(11...20), shard: 1)
        peer.read()
        #expect(peer[first].texts() == numbers(1...7))
        let replayed = peer.subscribe("t", all: true)
        #expect(peer[replayed].texts() == numbers(1...20))
        peer.request(100, first)
        #expect(peer[first].texts() == numbers(8...20))
        broker.connect().publish("$SYS.topic.complete?name=t", "", stream: 1)
        peer.read()
        #expect(peer[first].end == "completed" && peer[replayed].end == "completed")
        #expect(peer.http!.exchanges.count == 0)
    }

    @Test func theTimeoutOfACallEndsIt() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let stream = peer.call(.subscribe, [("grpc-timeout", "1500m")])
        let other = peer.call(.subscribe, [("grpc-timeout", "1H")])
        peer.sendMessage(stream, TestGRPC.open("t"))
        peer.sendMessage(other, TestGRPC.open("t"))
        broker.advance(seconds: 1.25)
        peer.read()
        #expect(!peer[stream].isEnded)
        broker.advance(seconds: 0.5)
        peer.read()
        #expect(peer[stream].status == "4" && peer[stream].isEnded && !peer[other].isEnded)
        #expect(broker.shards[0].subscriptions.count == 1 && peer.http!.exchanges.count == 1)
        broker.advance(seconds: 50)
        peer.read()
        publish(broker, ["on"])
        peer.read()
        #expect(peer[other].texts() == ["on"])
    }

    @Test func drainingDeliversWhatWaitsForAWindow() {
        let broker = TestBroker()
        let peer = TestGRPC(broker, window: 100)
        let watch = peer.call(.healthWatch)
        peer.sendMessage(watch, [UInt8](), end: true)
        #expect(peer[watch].take() == [[8, 1]])
        let stream = peer.subscribe("t")
        peer.closed = [stream]
        publish(broker, [String(repeating: "a", count: 90), "b", "c"])
        peer.read()
        broker.shards[0].drain(now: broker.now)
        broker.runAll()
        peer.read()
        #expect(peer[watch].take() == [[8, 2]], "the watcher is notified")
        let late = peer.subscribe("t")
        #expect(peer[late].status == "14")
        broker.advance(seconds: 2)
        #expect(!peer.client.isClosed, "messages wait for the stream's window")
        peer.closed = []
        peer.send(windowUpdate(stream, 1000))
        broker.advance(seconds: 1)
        peer.read()
        #expect(peer[stream].texts().suffix(2) == ["b", "c"] && peer[stream].status == "14")
        #expect(peer.client.isClosed && peer.goAway?.code == 0)
    }

    @Test func requestsThatCannotBeAreRefusedAlone() {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let standing = peer.subscribe("t")
        let cases: [([[UInt8]], String)] = [
            ([TestGRPC.open("")], "3"), ([TestGRPC.open("t", n: 0)], "3"), ([Proto.field(2, 3)], "3"),
            ([TestGRPC.open("t"), TestGRPC.open("t")], "3"), ([TestGRPC.open("t"), Proto.field(2, 0)], "3"),
            ([TestGRPC.open("$SYS.topics")], "3"), ([[0xFF]], "3"), ([[]], "3"),
        ]
        for (messages, status) in cases {
            let stream = peer.call(.subscribe)
            peer.sendMessage(stream, messages)
            #expect(peer[stream].status == status && peer[stream].isEnded, "\(messages)")
        }
        let empty = peer.call(.subscribe)
        peer.halfClose(empty)
        #expect(peer[empty].status == "3")
        publish(broker, ["still"])
        peer.read()
        #expect(peer[standing].texts() == ["still"] && peer.http!.exchanges.count == 1)
    }
}
