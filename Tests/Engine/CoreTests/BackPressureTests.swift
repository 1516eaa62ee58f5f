// What a peer that does not read can make the broker hold: responses, ends of streams, subscribers, rows of lists.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct BackPressureTests {
    /// A client's connection in its engine.
    private func connection(_ client: TestClient) -> Connection { client.broker.shards[client.shard].find(client.id)! }

    private func requests(_ count: Int, _ route: String, first: Int = 1, into buffer: inout ByteBuffer) {
        Array(route.utf8).withUnsafeBytes { route in
            for index in 0..<count {
                FrameWriter.requestStream(
                    stream: UInt32(first + 2 * index), initialN: 1, metadata: route,
                    data: UnsafeRawBufferPointer(start: nil, count: 0), fragment: 1 << 20, into: &buffer)
            }
        }
    }

    @Test func errorsOfOneReadAreHeldBack() {
        let broker = TestBroker()
        let client = broker.connect()
        client.window = 0
        client.send { requests(4000, "bad*", into: &$0) }
        #expect(connection(client).output.controlCount <= Limits().controlOutput + 1000)
        #expect(!client.isRead)
        // Reading in small steps delivers all responses, in order, and then the next request is handled.
        var lines: [String] = []
        var rounds = 0
        while lines.count < 4000, rounds < 1000 {
            client.read(10_000)
            lines += client.received()
            rounds += 1
        }
        #expect(lines.count == 4000)
        #expect(lines.map { $0.prefix { $0 != ":" } } == (0..<4000).map { "\(2 * $0 + 1)" })
        client.read(.max)
        #expect(client.isRead)
        client.publish("t", "x", stream: 8001)
        #expect(client.received() == ["8001:1|"])
        #expect(connection(client).rsocket.bufferedBytes == 0)
    }

    @Test func endsOfStreamsAreHeldBack() {
        let broker = TestBroker()
        let client = broker.connect()
        client.publish("t", "x", stream: 1)
        client.publish("$SYS.topic.complete?name=t", "", stream: 3)
        _ = client.received()
        client.window = 0
        for round in 0..<10 { client.send { requests(2000, "t", first: 5 + 4000 * round, into: &$0) } }
        #expect(connection(client).output.count <= Limits().controlOutput + 1000)
        #expect(!client.isRead)
        client.read(.max)
        #expect(client.isRead)
        #expect(client.received().count == 20_000)
    }

    /// What a held peer waited for ends without further input from that peer.
    @Test func aHeldPeerIsReadAgainWhenOthersHaveGivenMemoryBack() {
        let broker = TestBroker()
        let client = broker.connect()
        client.window = 0
        // This is more than may be unread while memory is short, and less than otherwise.
        broker.memory.addPending(broker.memory.limit)
        client.send { requests(1000, "bad*", into: &$0) }
        #expect(!client.isRead && connection(client).output.unreadAnswers < Limits().controlOutput)
        broker.memory.addPending(-broker.memory.limit)
        broker.advance(seconds: 0.5)
        #expect(connection(client).output.unreadAnswers > Limits().controlOutput, "it is no longer held back")
        client.read(.max)
        #expect(client.isRead && client.received().count == 1000)
    }

    @Test func aHeldPeerIsNotTakenForSilent() {
        var limits = Limits()
        limits.lifetime = Limits.second...(2 * Limits.second)
        limits.controlOutput = 1000
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        client.window = 0
        client.send { requests(100, "bad*", into: &$0) }
        for _ in 0..<5 {
            broker.advance(seconds: 1)
            client.read(100)
        }
        #expect(!client.isClosed)
        client.read(.max)
        #expect(client.received().count(where: { $0.contains("! 204") }) == 100)
    }

    @Test func publishesOnTheirWayToAnotherShardAreHeldBack() {
        var limits = Limits()
        limits.forwarded = 10_000
        limits.parkedCount = 40
        let broker = TestBroker(shards: 2, limits: limits)
        let name = (0...).lazy.map { "t\($0)" }.first { broker.shards[0].owner(of: $0) == 1 }!
        let client = broker.connect(0)
        client.send { buffer in
            for stream in 0..<500 {
                Array(name.utf8).withUnsafeBytes {
                    FrameWriter.requestResponse(
                        stream: UInt32(2 * stream + 1), metadata: $0, data: $0, fragment: 1 << 20, into: &buffer)
                }
            }
        }
        let lines = client.received()
        #expect(lines.count == 500 && lines.allSatisfy { $0.hasSuffix("|") }, "\(lines.prefix { !$0.contains("|") })")
        #expect(client.isRead && connection(client).input.forwarded == 0)
    }

    @Test func subscribersThatLeaveWhileWaitingAreRemoved() {
        var limits = Limits()
        limits.output = 1000
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        let publisher = broker.connect()
        let text = String(repeating: "x", count: 100)
        for stream in 0..<20 { publisher.publish("t", text, stream: UInt32(2 * stream + 1)) }
        client.window = 0
        client.subscribe("t?replay=all", stream: 1)
        struct Weak { weak let subscriber: BoundStream? }
        var seen: [Weak] = []
        for round in 0..<500 {
            let stream = UInt32(3 + 2 * round)
            client.subscribe("t?replay=all", stream: stream)
            seen.append(Weak(subscriber: connection(client).streams.last))
            client.cancel(stream: stream)
        }
        #expect(seen.count { $0.subscriber != nil } <= 2)
        #expect(connection(client).outputWaiterCount == 1)
        client.read(.max)
        #expect(client.received().count == 20)
    }

    /// Each read of a channel is acknowledged; a client that does not read finds only the last acknowledgement.
    @Test(arguments: [1, 2])
    func acknowledgementsConflateWhileUnread(_ shards: Int) {
        let broker = TestBroker(shards: shards)
        let client = broker.connect()
        client.channel("t", "0")
        _ = client.received()
        client.window = 0
        for index in 1...1000 { client.items(["\(index)"]) }
        #expect(connection(client).output.controlCount < 8 << 10 && client.isRead)
        client.read(.max)
        let acknowledged = client.received().filter { !$0.contains("+") }
        #expect(acknowledged.count < 200 && acknowledged.last == "5:1001", "\(acknowledged.count)")
        client.items(["on"])
        #expect(client.received().contains("5:1002"))
    }

    @Test func aChannelThatFailsTellsHowFarItCame() {
        let broker = TestBroker()
        let client = broker.connect()
        client.channel("t", "0")
        client.window = 0
        for index in 1...1000 { client.items(["\(index)"]) }
        broker.connect().publish("$SYS.topic.fail?name=t", "")
        client.read(.max)
        let lines = client.received().filter { !$0.contains("+") }
        #expect(lines.dropLast().last == "5:1001" && lines.last?.hasPrefix("5:! 202") == true)
    }

    @Test func smallMessagesWithMetadataLieTogether() {
        let broker = TestBroker()
        let composite = broker.connect(metadata: "message/x.rsocket.composite-metadata.v0")
        let client = broker.connect()
        client.subscribe("t")
        // A routing entry, and an entry added by the publisher, which becomes a metadata entry of the message.
        let metadata: [UInt8] = [0xFE, 0, 0, 2, 1, 0x74, 0xFA, 0, 0, 1, 0x85]
        composite.send { buffer in
            metadata.withUnsafeBytes { metadata in
                for stream in 0..<100 {
                    FrameWriter.requestFNF(
                        stream: UInt32(2 * stream + 1), metadata: metadata, data: metadata, fragment: 1 << 20,
                        into: &buffer)
                }
            }
        }
        #expect(client.received().count == 100)
        #expect(connection(client).output.copied == UInt64(100 * (metadata.count + PayloadFraming.header)))
    }

    @Test func listsTakeLittleMemory() {
        var limits = Limits()
        limits.output = 1000
        limits.listsPerConnection = 3
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        for _ in 0..<100 { _ = broker.connect() }
        client.window = 0
        for stream in [1, 3, 5, 7] { client.subscribe("$SYS.connections", stream: UInt32(stream)) }
        for _ in 0..<1000 { client.requestN(1) }
        #expect(connection(client).waiters.listCount <= 3)
        client.read(.max)
        let lines = client.received()
        #expect(lines.count(where: { $0.hasPrefix("7:! 202 limit: The connection has 3 lists") }) == 1)
        for stream in [1, 3, 5] {
            #expect(lines.count(where: { $0.hasPrefix("\(stream):{") }) == 101)
            #expect(lines.contains("\(stream):|"))
        }
        client.subscribe("$SYS.connections", stream: 9)
        #expect(client.received().last == "9:|")
    }

    /// Opening and canceling a list costs the client nothing, but the engine a page: the engine works on one list at a
    /// time.
    @Test(arguments: [1, 2])
    func listsThatAreGivenUpAtOnceAreHardlyWork(shards: Int) {
        let broker = TestBroker(shards: shards)
        let client = broker.connect()
        let shard = broker.shards[0]
        var buffer = ByteBuffer()
        for stream in 0..<800 {
            requests(1, "$SYS.topics", first: 2 * stream + 1, into: &buffer)
            FrameWriter.cancel(stream: UInt32(2 * stream + 1), into: &buffer)
        }
        shard.receive(buffer.readable, on: client.id, now: broker.now)
        while shard.hasWork { shard.goOn(now: broker.now) }
        #expect(shard.effects.messages.map(\.count).reduce(0, +) == 1)
        #expect(shard.pages.dueCount == Limits().listsPerConnection - 1)
        #expect(connection(client).streams.listCount == Limits().listsPerConnection)
        broker.run()
        #expect(shard.pages.dueCount == 0 && shard.pages.underWay == nil && connection(client).streams.listCount == 0)
        let refused = client.received()
        #expect(refused.count == 800 - Limits().listsPerConnection && refused.allSatisfy { $0.contains(":! 202 ") })
        client.subscribe("$SYS.topics", stream: 3001)
        #expect(client.received().last == "3001:|")
    }

    /// Cancelled calls are still in flight to the shard that answers them.
    @Test func callsOnTheirWayToAnotherShardAreHeldBack() {
        let broker = TestBroker(shards: 2)
        let client = broker.connect()
        let other = (0..<100).map { "topic\($0)" }.first { broker.shards[0].owner(of: $0) == 1 }!
        let most = Limits().forwarded / ControlRequest.weight
        var buffer = ByteBuffer()
        Array("$SYS.topic.info?name=\(other)".utf8).withUnsafeBytes { route in
            for index in 0...most {
                let stream = UInt32(2 * index + 1)
                FrameWriter.requestResponse(
                    stream: stream, metadata: route, data: UnsafeRawBufferPointer(start: nil, count: 0),
                    fragment: 1 << 20, into: &buffer)
                FrameWriter.cancel(stream: stream, into: &buffer)
            }
        }
        broker.shards[0].receive(buffer.readable, on: client.id, now: broker.now)
        while broker.shards[0].hasWork { broker.shards[0].goOn(now: broker.now) }
        #expect(!connection(client).input.isReading)
        broker.run()
        #expect(connection(client).input.isReading && connection(client).input.forwarded == 0 && client.isRead)
    }

    @Test func aClosedConnectionIsFreed() {
        var limits = Limits()
        limits.output = 1000
        let broker = TestBroker(limits: limits)
        weak var gone: Connection?
        do {
            let client = broker.connect()
            for _ in 0..<100 { _ = broker.connect() }
            client.window = 0
            client.subscribe("$SYS.connections", stream: 1)
            client.subscribe("t", stream: 3)
            client.fireAndForget("t", String(repeating: "x", count: 2000))
            client.fireAndForget("t", "y", stream: 11)
            gone = connection(client)
            #expect(gone!.outputWaiterCount == 1 && gone!.waiters.listCount == 1)
            client.disconnect()
        }
        // The connection would have been checked at the next tick.
        broker.advance(seconds: 0.25)
        #expect(gone == nil)
    }

    /// A driver may hold back part of what it took, as with a TLS record: everything offered is written, but the socket
    /// is still blocked.
    @Test func whoseSocketHasTakenAllIsReadAgain() throws {
        let broker = TestBroker()
        let peer = TestGRPC(broker)
        let (shard, id) = (broker.shards[0], peer.client.id)
        peer.client.window = 0
        for _ in 0..<40 { _ = peer.publishOne("t", "x") }
        let connection = try #require(peer.connection)
        #expect(connection.input.isHeld && !connection.input.isReading)
        withUnsafeTemporaryAllocation(of: UnsafeRawBufferPointer.self, capacity: 64) { pieces in
            while case let count = shard.gather(id, into: pieces), count > 0 {
                shard.wrote(pieces[..<count].reduce(0) { $0 + $1.count }, blocked: true, on: id, now: broker.now)
            }
        }
        peer.client.window = .max
        shard.writable(id, now: broker.now)
        broker.runAll()
        #expect(!connection.input.isHeld && connection.input.isReading)
    }
}
