// What clients begin and do not finish counts towards the broker's memory, and is refused if the memory is full. The
// metadata entries sent with a message are limited in number as well as in bytes.

import Bytes
import HTTP2
import HTTP2Frames
import RSocket
import Testing

@testable import Core

@Suite struct UnfinishedTests {
    private static let memory = 4 << 20

    private func broker() -> TestBroker {
        var limits = Limits()
        limits.memory = UnfinishedTests.memory
        return TestBroker(limits: limits)
    }

    private func expectWorking(_ broker: TestBroker) {
        let client = broker.connect()
        client.subscribe("small")
        client.publish("small", String(repeating: "y", count: 10_000))
        #expect(client.received().contains("3:1|"))
        #expect(broker.memory.used <= UnfinishedTests.memory * 5 / 4, "\(broker.memory.used)")
    }

    @Test func fragmentsAreRefusedWhereMemoryIsFull() {
        let broker = broker()
        let text = [UInt8](repeating: 120, count: 900_000)
        var refused = 0
        for _ in 0..<40 {
            let client = broker.connect()
            client.send { buffer in
                var frames = ByteBuffer()
                Array("t".utf8).withUnsafeBytes { route in
                    text.withUnsafeBytes {
                        FrameWriter.requestResponse(
                            stream: 1, metadata: route, data: $0, fragment: 60_000, into: &frames)
                    }
                }
                // All fragments but the last.
                buffer.append(frames.readable.slice(0..<frames.count - 100))
            }
            if client.received().contains(where: { $0.hasPrefix("1:! 202") }) { refused += 1 }
        }
        #expect(refused > 30)
        expectWorking(broker)
    }

    /// Clients that do not read may use up memory: nobody else's publishes are refused for that, whatever their form.
    @Test func fragmentsAreTakenWhereOthersUseUpMemory() {
        let broker = broker()
        let client = broker.connect()
        broker.memory.add(UnfinishedTests.memory)
        var frames = ByteBuffer()
        Array("t".utf8).withUnsafeBytes { route in
            [UInt8](repeating: 120, count: 200_000).withUnsafeBytes {
                FrameWriter.requestResponse(stream: 1, metadata: route, data: $0, fragment: 60_000, into: &frames)
            }
        }
        let middle = frames.count / 2
        client.send { $0.append(frames.readable.slice(0..<middle)) }
        client.send { $0.append(frames.readable.slice(middle..<frames.count)) }
        #expect(client.received() == ["1:1|"])
        broker.memory.add(-UnfinishedTests.memory)
    }

    /// There is no response, so the broker's figures show why the publish was lost.
    @Test func aFireOfFragmentsIsLostToMemory() {
        let broker = broker()
        let text = [UInt8](repeating: 120, count: 900_000)
        for _ in 0..<40 {
            let client = broker.connect()
            client.send { buffer in
                var frames = ByteBuffer()
                Array("t".utf8).withUnsafeBytes { route in
                    text.withUnsafeBytes {
                        FrameWriter.requestFNF(stream: 1, metadata: route, data: $0, fragment: 60_000, into: &frames)
                    }
                }
                // All fragments but the last.
                buffer.append(frames.readable.slice(0..<frames.count - 100))
            }
            #expect(client.received() == [])
        }
        let dropped = broker.shards[0].counters.publishesDropped
        #expect(dropped[.memory] > 30 && dropped.total == dropped[.memory], "\(dropped)")
        expectWorking(broker)
    }

    /// A large number of connections, each with a little data.
    @Test func littleOfManyIsRefusedWhereMemoryIsFull() {
        let broker = broker()
        for _ in 0..<500 {
            let client = broker.connect()
            client.send { buffer in
                for stream in 0..<100 {
                    var frame = ByteBuffer()
                    Array("t".utf8).withUnsafeBytes {
                        FrameWriter.requestResponse(
                            stream: UInt32(2 * stream + 1), metadata: $0, data: $0, fragment: 1 << 20, into: &frame)
                    }
                    frame.withMutableReadable { $0[8] |= 0x80 }  // F
                    buffer.append(frame.readable)
                }
            }
        }
        expectWorking(broker)
    }

    /// A frame whose end is yet to arrive.
    @Test func halfAFrameIsNotKeptWhereMemoryIsFull() {
        let broker = broker()
        let text = [UInt8](repeating: 120, count: 900_000)
        let clients = (0..<40).map { _ in broker.connect() }
        for part in 0..<9 {
            for client in clients {
                client.send { buffer in
                    var frames = ByteBuffer()
                    Array("t".utf8).withUnsafeBytes { route in
                        text.withUnsafeBytes {
                            FrameWriter.requestResponse(
                                stream: 1, metadata: route, data: $0, fragment: 1 << 20, into: &frames)
                        }
                    }
                    buffer.append(frames.readable.slice(part * 100_000..<(part + 1) * 100_000))
                }
                #expect(broker.memory.used <= UnfinishedTests.memory * 5 / 4, "\(broker.memory.used)")
            }
        }
        expectWorking(broker)
    }

    @Test func messagesOfCallsAreRefusedWhereMemoryIsFull() {
        let broker = broker()
        var refused = 0
        for _ in 0..<40 {
            let peer = TestGRPC(broker)
            let stream = peer.call(.publishOne)
            let message = Proto.field(1, "t") + TestGRPC.item(String(repeating: "x", count: 900_000))
            peer.sendMessage(stream, message)
            peer.read()
            if peer[stream].status == "8" { refused += 1 }
        }
        #expect(refused > 20)
        expectWorking(broker)
    }

    /// Responses that a socket does not accept, and those that a peer's windows hold back.
    @Test(arguments: [true, false])
    func answersOverHTTP2AreMadeNoMoreWhereMemoryIsFull(isSocket: Bool) {
        let broker = broker()
        let peers = (0..<40).map { _ in TestGRPC(broker, window: isSocket ? 65_535 : 0) }
        for peer in peers {
            if isSocket { peer.client.window = 0 }
            var calls: [UInt8] = []
            for stream in stride(from: UInt32(1), to: 801, by: 2) {
                let head = [(":method", "POST"), (":scheme", "http"), (":authority", "a")]
                let path = (":path", GRPCMethod.healthCheck.path)
                calls += headers(stream, head + [path, ("content-type", "application/grpc"), ("te", "trailers")])
                calls += data(stream, framed([]), end: true)
            }
            peer.send(calls)
            let shard = broker.shards[0]
            let connection = shard.find(peer.client.id)!
            #expect(connection.input.charged >= connection.http!.exchanges.count * HTTPConnection.requestMemory)
        }
        let exchanges = peers.reduce(0) { $0 + broker.shards[0].find($1.client.id)!.http!.exchanges.count }
        #expect(exchanges * HTTPConnection.requestMemory < UnfinishedTests.memory * 3 / 4, "\(exchanges)")
        expectWorking(broker)
        for peer in peers where isSocket {
            peer.client.read(.max)
            peer.read()
        }
        let left = peers.reduce(0) { $0 + broker.shards[0].find($1.client.id)!.http!.exchanges.count }
        #expect(!isSocket || left == 0)
    }

    /// Parked publishes take at most half of the memory, including the overhead of each.
    @Test func publishesThatWaitGiveWayToOthers() {
        let broker = broker()
        let subscriber = broker.connect()
        subscriber.subscribe("full?overflow=block&buffer=1", n: 1)
        var refused = 0
        for _ in 0..<20 {
            let client = broker.connect()
            for stream in 0..<400 {
                client.publish("full", String(repeating: "x", count: 500), stream: UInt32(2 * stream + 1))
            }
            refused += client.received().count { $0.contains("! 202") }
        }
        let parked = broker.shards[0].topics["full"]!.publishers.current.parked
        #expect(parked.memory <= UnfinishedTests.memory / 2 + 2048)
        #expect(refused == 20 * 400 - 2 - parked.count, "\(refused), \(parked.count)")
        expectWorking(broker)
    }

    /// A message's metadata entries take more than their bytes if subscribers receive them.
    @Test(arguments: [(Limits.metadataEntries, true), (Limits.metadataEntries + 1, false)])
    func aMessageHasSoManyEntriesOfMetadata(_ count: Int, _ isTaken: Bool) {
        let broker = broker()
        let client = broker.connect(metadata: "message/x.rsocket.composite-metadata.v0")
        var metadata = ByteBuffer()
        try? CompositeMetadata.appendRoute(["t"], into: &metadata)
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        for _ in 0..<count { CompositeMetadata.appendEntry(id: 5, none, into: &metadata) }
        client.send {
            FrameWriter.requestResponse(
                stream: 1, metadata: metadata.readable, data: none, fragment: 1 << 20, into: &$0)
        }
        #expect(client.received().first?.hasPrefix(isTaken ? "1:1|" : "1:! 202 too-large: ") == true)
    }
}
