// What a peer that does not read can make the broker hold: answers, ends of streams, subscribers, rows of lists.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct BackPressureTests {
    /// What a client's connection looks like to its engine.
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
        // Reading them little by little brings them all, in order, and then the next request.
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
        #expect(client.isRead && connection(client).forwarded == 0)
    }

    @Test func aBlockedSocketKeepsNoChunkThatCameLater() {
        var limits = Limits()
        limits.retain = 1
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        let publisher = broker.connect()
        client.subscribe("t", n: 1)
        client.window = 0
        let text = String(repeating: "x", count: 60_000)
        publisher.publish("t", text)
        for _ in 0..<3 {
            for stream in 0..<10 { publisher.publish("t", text, stream: UInt32(2 * stream + 5)) }
            client.requestN(1)
        }
        weak let chunk = broker.shards[0].names["t"]!.log.allPieces.first!.chunk
        #expect(chunk != nil)
        client.cancel()
        for stream in 0..<10 { publisher.publish("t", text, stream: UInt32(2 * stream + 105)) }
        #expect(chunk == nil)
    }

    @Test func subscribersThatLeaveHungryAreForgotten() {
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
        #expect(connection(client).hungryCount == 1)
        client.read(.max)
        #expect(client.received().count == 20)
    }

    @Test func listsTakeLittleMemory() {
        var limits = Limits()
        limits.output = 1000
        limits.listingsPerConnection = 3
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        for _ in 0..<100 { _ = broker.connect() }
        client.window = 0
        for stream in [1, 3, 5, 7] { client.subscribe("$SYS.connections", stream: UInt32(stream)) }
        for _ in 0..<1000 { client.requestN(1) }
        #expect(connection(client).waitingListings.count <= 3)
        client.read(.max)
        let lines = client.received()
        #expect(lines.count(where: { $0.hasPrefix("7:! 202 The connection has 3 lists") }) == 1)
        for stream in [1, 3, 5] {
            #expect(lines.count(where: { $0.hasPrefix("\(stream):{") }) == 101)
            #expect(lines.contains("\(stream):|"))
        }
        client.subscribe("$SYS.connections", stream: 9)
        #expect(client.received().last == "9:|")
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
            client.fire("t", String(repeating: "x", count: 2000))
            client.fire("t", "y", stream: 11)
            gone = connection(client)
            #expect(gone!.hungryCount == 1 && gone!.waitingListings.count == 1)
            client.disconnect()
        }
        #expect(gone == nil)
    }
}
