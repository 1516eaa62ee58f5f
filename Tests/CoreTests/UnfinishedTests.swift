// What clients begin and do not end counts as the broker's memory, and is refused where that is full; and what they may
// send beside a message is limited by number as well as by bytes.

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
                // All but the last of them.
                buffer.append(frames.readable.slice(0..<frames.count - 100))
            }
            if client.received().contains(where: { $0.hasPrefix("1:! 202") }) { refused += 1 }
        }
        #expect(refused > 30)
        expectWorking(broker)
    }

    /// Nobody is answered, so the broker's figures tell why it was lost.
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
                // All but the last of them.
                buffer.append(frames.readable.slice(0..<frames.count - 100))
            }
            #expect(client.received() == [])
        }
        let dropped = broker.shards[0].counters.publishesDropped
        #expect(dropped[.memory] > 30 && dropped.total == dropped[.memory], "\(dropped)")
        expectWorking(broker)
    }

    /// A frame of which the end is still to come.
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
            peer.say(stream, message)
            peer.read()
            if peer[stream].status == "8" { refused += 1 }
        }
        #expect(refused > 20)
        expectWorking(broker)
    }

    /// A message's entries of metadata take more than their bytes where subscribers are told of them.
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
        #expect(client.received().first?.hasPrefix(isTaken ? "1:1|" : "1:! 204") == true)
    }
}
