// Clients that do not read: whatever was sent to them, memory is bounded, nobody else is affected, and their losses are
// reported when they read again.

import Bytes
import RSocket
import Replay
import Testing

@testable import Core

@Suite struct StalledReadersTests {
    enum Form: CaseIterable { case frames, withMetadata, calls, lines }

    private static let memory = 8 << 20

    private func broker(retain: Int = 1024) -> TestBroker {
        var limits = Limits()
        limits.memory = StalledReadersTests.memory
        limits.retain = retain
        return TestBroker(limits: limits)
    }

    /// A subscriber whose socket accepts only `window` bytes.
    private func stalled(_ broker: TestBroker, _ form: Form, window: Int, topic: String = "t") -> TestClient {
        switch form {
        case .frames, .withMetadata:
            let client = broker.connect()
            client.window = window
            client.subscribe(form == .frames ? topic : "\(topic)?meta=on")
            return client
        case .calls, .lines:
            let peer = TestGRPC(broker, window: 1 << 30, connectionWindow: 1 << 30)
            let stream = form == .calls ? peer.subscribe(topic) : peer.listen(topic)
            #expect(stream == 1)
            peer.client.window = window
            return peer.client
        }
    }

    /// There are many such clients of one topic, and messages of every size: memory stays within a quarter above its
    /// limit, all publishes are accepted, clients that read receive what others have no room for, and nobody is
    /// disconnected.
    @Test(arguments: Form.allCases, [1000, 64 << 10, (1 << 20) - 100])
    func thoseOfOneTopicTakeAConstant(_ form: Form, _ size: Int) {
        let broker = broker()
        let clients = (0..<300).map { stalled(broker, form, window: 5000 + 37 * $0) }
        let idle = broker.memory.used
        let other = broker.connect()
        other.subscribe("other")
        let publisher = broker.connect()
        let text = String(repeating: "x", count: size)
        var most = 0
        for number in 0..<(size > 2000 ? 40 : 400) {
            publisher.publish("t", text, stream: UInt32(2 * number + 1))
            #expect(publisher.received() == ["\(2 * number + 1):\(number + 1)|"])
            other.fireAndForget("other", "\(number)")
            #expect(other.received() == ["1:\(number)"])
            if number % 4 == 0 { broker.advance(seconds: 0.3) }
            most = max(most, broker.memory.used)
        }
        #expect(most - idle <= StalledReadersTests.memory * 5 / 4, "\(most)")
        #expect(clients.allSatisfy { !$0.isClosed })
    }

    /// If each client is stuck in a different message, those that keep the most are disconnected once such messages
    /// take a quarter of the memory: publishes are still accepted, and many clients stuck in the same message stay.
    @Test(arguments: Form.allCases)
    func thoseStuckAtOtherTimesAreCutOff(_ form: Form) {
        let broker = broker(retain: 1)
        let together = (0..<50).map { _ in stalled(broker, form, window: 5000) }
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 200_000)
        var alone: [TestClient] = []
        for number in 0..<100 {
            publisher.publish("t", text, stream: UInt32(2 * number + 1))
            #expect(publisher.received() == ["\(2 * number + 1):\(number + 1)|"])
            #expect(broker.memory.used <= StalledReadersTests.memory * 5 / 4, "\(broker.memory.used)")
            alone.append(stalled(broker, form, window: 5000))
            broker.advance(seconds: 0.3)
        }
        #expect(together.allSatisfy { !$0.isClosed })
        let closed = alone.count { $0.isClosed }
        #expect(closed >= 10 && !alone[98].isClosed, "\(closed)")
        broker.advance(seconds: 3)
        #expect(broker.memory.used <= StalledReadersTests.memory, "\(broker.memory.used)")
        #expect(broker.shards[0].currentCounters().limits[.memory] > 0)
    }

    /// The same number of clients is stuck in each message: as many as necessary are disconnected at once.
    @Test func groupsOfEqualSizeGiveWayAtOnce() {
        let broker = broker(retain: 1)
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 200_000)
        var refused = 0
        for number in 0..<120 {
            publisher.publish("t", text, stream: UInt32(2 * number + 1))
            if publisher.received() != ["\(2 * number + 1):\(number + 1 - refused)|"] { refused += 1 }
            for _ in 0..<8 { _ = stalled(broker, .frames, window: 5000, topic: "t?replay=1") }
            broker.advance(seconds: 0.2)
        }
        #expect(refused <= 6, "\(refused)")
    }

    /// If a client needs only a small part of what it keeps, that part is copied, and the client stays connected.
    @Test(arguments: ["t", "t?meta=on"]) func aLittleOfMuchIsCopied(_ route: String) {
        let broker = broker(retain: 1)
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 25_000)
        var alone: [TestClient] = []
        var stream: UInt32 = 1
        for _ in 0..<40 {
            let client = broker.connect()
            client.window = 5000
            client.subscribe(route, n: 1)
            alone.append(client)
            for _ in 0..<20 {
                publisher.publish("t", text, stream: stream)
                #expect(publisher.received().first?.hasSuffix("|") == true)
                stream += 2
            }
            broker.advance(seconds: 0.5)
        }
        #expect(alone.allSatisfy { !$0.isClosed })
        #expect(broker.memory.used <= StalledReadersTests.memory, "\(broker.memory.used)")
    }

    /// For a client that is stuck at any point of a topic's replay, no separate copy of the message is made.
    @Test func thoseStuckInHistoryShareItToo() {
        let broker = broker(retain: 20)
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 100_000)
        for number in 0..<20 { publisher.publish("t", text, stream: UInt32(2 * number + 1)) }
        for number in 0..<300 {
            let peer = TestGRPC(broker, window: 1 << 30, connectionWindow: 1 << 30)
            peer.client.window = 5000
            _ = peer.subscribe("t", from: UInt64(1 + number % 20))
            #expect(broker.memory.used <= StalledReadersTests.memory, "\(number): \(broker.memory.used)")
        }
        publisher.publish("t", text, stream: 1001)
        #expect(publisher.received().last == "1001:21|")
    }

    /// Large messages in another form are converted one per turn, and use at most half of memory: a client at another
    /// point of the history waits, and continues when others have read.
    @Test func thoseStuckInHistoryInAnotherFormWait() {
        let broker = broker(retain: 10)
        let shard = broker.shards[0]
        let publisher = broker.connect()
        // JSON takes six bytes for each of these characters.
        let text = String(repeating: "\u{1}", count: 80_000)
        for number in 0..<10 { publisher.publish("t", text, stream: UInt32(2 * number + 1)) }
        let peers = (0..<20).map { number in
            let peer = TestGRPC(broker, window: 1 << 30, connectionWindow: 1 << 30)
            peer.client.window = 5000
            _ = peer.listen("t", last: 10 - number % 10)
            #expect(broker.memory.forms <= StalledReadersTests.memory / EntryForm.share, "\(number)")
            return peer
        }
        #expect(broker.memory.forms >= 6 * 480_000 && !shard.work.isFed)
        publisher.publish("other", "x", stream: 1001)
        #expect(publisher.received().last == "1001:1|")
        for peer in peers { peer.client.read(.max) }
        broker.advance(seconds: 2)
        #expect(shard.work.isFed)
        for (number, peer) in peers.enumerated() {
            peer.read()
            #expect(peer[1].received >= 480_000 * (10 - number % 10), "\(number)")
        }
    }

    /// A long message is measured only once, however many streams have windows too small for it.
    @Test func longMessagesAreMeasuredOnceEach() {
        let broker = broker(retain: 10)
        let shard = broker.shards[0]
        let peer = TestGRPC(broker, window: 1, connectionWindow: 1 << 30)
        let stream = peer.listen("t")
        let publisher = broker.connect()
        for number in 0..<2 {
            publisher.publish("t", String(repeating: "x", count: 100_000), stream: UInt32(2 * number + 1))
        }
        guard let subscriber = peer.exchange(stream)?.subscriber else { return #expect(Bool(false)) }
        func size(_ sequence: UInt64) -> Int? {
            shard.parts.output.entryDelivery.entrySize(
                of: SequenceNumber(sequence), as: .record(.eventStream, epoch: 7), for: subscriber)
        }
        shard.beginTurn()
        #expect(size(1).map { $0 > 100_000 } == true)
        let spent = shard.work.spent
        #expect(spent >= 100_000 / Work.bytesMadePerUnit)
        #expect(size(1) != nil && shard.work.spent == spent)
        #expect(size(2) == nil && shard.hasWork, "another message is for a later turn")
        shard.beginTurn()
        #expect(size(2) != nil)
        shard.beginTurn()
        #expect(size(1) != nil && size(2) != nil && shard.work.spent == 0)
        broker.runAll()
    }

    /// If memory is short, no separate copy of a message is kept for each client that could resume. A client that reads
    /// continues, and is sent again what was kept, but not the rest.
    @Test func thoseWhoCanResumeTakeAConstant() {
        let broker = broker(retain: 1)
        let clients = (0..<60).map { index in
            let client = ResumingClient(broker, token: [UInt8](repeating: UInt8(index), count: 16))
            client.subscribe("t", n: 99, stream: 1)
            client.socket.window = index == 2 ? 0 : 1000 + 37 * index
            return client
        }
        let idle = broker.memory.used
        let publisher = broker.connect()
        let text = String(repeating: "x", count: (1 << 20) - 100)
        for number in 0..<20 {
            publisher.publish("t", "\(number)\(text)", stream: UInt32(2 * number + 1))
            #expect(publisher.received() == ["\(2 * number + 1):\(number + 1)|"])
            #expect(broker.memory.used - idle <= StalledReadersTests.memory * 5 / 4, "\(broker.memory.used)")
        }
        // The last clients were served first, and what they were sent is kept.
        let reader = clients[1]
        reader.socket.read(.max)
        reader.acknowledge()
        for _ in 0..<12 {
            broker.advance(seconds: 1)
            reader.acknowledge()
        }
        // This client has received the first message and the newest.
        #expect(reader.lines.contains { $0.hasPrefix("1:0x") } && reader.lines.contains { $0.hasPrefix("1:19x") })
        reader.lose()
        reader.resume()
        #expect(reader.resumed == 1 && reader.refusal == nil)
        // This client lacks a part of a message that was not kept.
        clients[0].lose()
        clients[0].resume()
        #expect(clients[0].refusal?.contains("gap: The session cannot continue from position 0") == true)
        // This client lacks the whole message.
        clients[2].lose()
        clients[2].resume()
        #expect(clients[2].refusal?.contains("gap: The session cannot continue from position") == true)
    }

    /// Messages of a few bytes, to many streams of a connection: remembering the position of each takes more than the
    /// message itself.
    @Test func whatIsRememberedOfSmallMessagesIsBounded() {
        let broker = broker()
        let clients = (0..<40).map { _ in
            let client = broker.connect()
            client.window = 100
            for stream in 0..<10 { client.subscribe("t", stream: UInt32(2 * stream + 1)) }
            return client
        }
        let publisher = broker.connect()
        for _ in 0..<2000 { publisher.fireAndForget("t", "") }
        let shard = broker.shards[0]
        let outputs = (0..<shard.connections.bound).compactMap { shard.connections.at($0) }
            .filter { $0.output.blocked }
        #expect(outputs.count == clients.count)
        #expect(outputs.allSatisfy { $0.output.segments.count <= 64 })
        #expect(broker.memory.used <= StalledReadersTests.memory, "\(broker.memory.used)")
        clients[0].read(.max)
        #expect(clients[0].received().count > 10_000)
    }

    /// Responses held back by windows for a long time give way to new requests.
    @Test func whoseWindowsHoldAnswersBackIsCutOff() {
        let broker = broker()
        let peers = (0..<30).map { _ in TestGRPC(broker, window: 0) }
        for peer in peers { for _ in 0..<90 { _ = peer.listen("$SYS.nothing") } }
        let patient = TestGRPC(broker, window: 0)
        for _ in 0..<5 { _ = patient.listen("$SYS.nothing") }
        #expect(broker.memory.isPendingHigh)
        broker.advance(seconds: 5)
        #expect(peers.allSatisfy { !$0.client.isClosed })
        broker.advance(seconds: 6)
        #expect(!broker.memory.isPendingHigh && !patient.client.isClosed)
        #expect(peers.contains { $0.client.isClosed } && peers.contains { !$0.client.isClosed })
    }

    /// Losses are reported when the client reads again.
    @Test func whoReadsAgainIsToldOfWhatIsLost() {
        let broker = broker(retain: 1)
        let client = stalled(broker, .withMetadata, window: 100)
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 100_000)
        for number in 0..<200 { publisher.publish("t", text, stream: UInt32(2 * number + 1)) }
        client.read(.max)
        let reported = client.received().compactMap { line -> Int? in
            guard let open = line.firstIndex(of: "["), let close = line.firstIndex(of: "]") else { return nil }
            return Int(line[line.index(after: open)..<close].split(separator: "+").last ?? "")
        }
        #expect(reported.last == 200, "\(reported)")
    }

    /// Messages that merely wait for a topic's subscriptions are no reason to refuse publishes: the subscriptions lose
    /// them.
    @Test func whatOthersWaitForIsLostBeforeAPublishIsRefused() {
        let broker = broker()
        let stalled = broker.connect()
        for topic in 0..<20 { stalled.subscribe("t\(topic)?buffer=1000000", n: 1, stream: UInt32(2 * topic + 1)) }
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 10_000)
        for number in 0..<4000 {
            publisher.publish("t\(number % 20)", text, stream: UInt32(2 * number + 1))
            #expect(publisher.received() == ["\(2 * number + 1):\(number / 20 + 1)|"])
            #expect(broker.memory.used <= StalledReadersTests.memory * 5 / 4)
        }
        let counters = broker.shards[0].currentCounters()
        #expect(counters.dropped[.dropOldest] > 1000 && counters.limits[.memory] > 0)
    }

    /// Only messages that a `block` subscription waits for are kept at the publishers' cost.
    @Test func whatBlockSubscriptionsWaitForIsKept() {
        let broker = broker()
        let blocking = broker.connect()
        blocking.subscribe("t?overflow=block&buffer=1000000", n: 1)
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 10_000)
        var taken = 0
        for number in 0..<1500 {
            publisher.publish("t", text, stream: UInt32(2 * number + 1))
            if publisher.received().first?.hasSuffix("|") == true { taken += 1 }
        }
        #expect(taken < 1500 && broker.memory.used <= StalledReadersTests.memory * 5 / 4 + Chunk.largest)
        blocking.requestN(0x7FFF_FFFF)
        #expect(blocking.received().count == taken)
    }
}
