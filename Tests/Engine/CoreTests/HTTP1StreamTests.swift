// Streams over HTTP/1.1: their output, input received in the meantime, and how a connection ends with its stream.

import Testing

@testable import Core

@Suite struct HTTP1StreamTests {
    private let broker = HTTP1Broker()
    private let messages = "/v1/topics/t/messages"

    private func complete() throws {
        let topic = try #require(broker.shard.topics.all.first { $0.name == "t" })
        topic.finish(.completed, now: broker.now)
        broker.shard.parts.turn.propagation.run(broker.now)
    }

    @Test func aStreamIsWrittenChunkByChunk() throws {
        let reader = HTTP1Peer(broker)
        let writer = HTTP1Peer(broker)
        reader.send("GET", messages)
        let answer = try #require(reader.answer())
        #expect(answer.status == 200 && answer.length == nil && answer.isStream)
        #expect(answer.headers.contains { $0 == ("content-type", "text/event-stream") })
        #expect(reader.read().text.contains("event: subscribed"))
        for number in 1...3 {
            #expect(writer.publish("\(number)") == 200)
            let (text, end) = reader.read()
            #expect(text.hasSuffix("data: \(number)\n\n") && end == .later)
        }
        let head = try #require(reader.streamHead)
        #expect(head.hasPrefix("HTTP/1.1 200 OK\r\n") && head.hasSuffix("\r\nconnection: close\r\n\r\n"))
        #expect(head.contains("\r\ntransfer-encoding: chunked\r\n"))
        reader.lose()
        writer.lose()
        broker.turn()
        #expect(broker.shard.connections.count == 0 && broker.shard.subscriptions.count == 0)
    }

    @Test func aStreamOfHTTP10HasNoChunks() throws {
        let reader = HTTP1Peer(broker)
        #expect(HTTP1Peer(broker).publish("x") == 200)
        reader.send("GET", messages + "?replay=1", [("Accept", "application/x-ndjson")], version: "HTTP/1.0")
        #expect(reader.answer()?.isStream == true)
        #expect(reader.read().text.hasSuffix(#""payload":"x"}"# + "\n"))
        #expect(try !#require(reader.streamHead).contains("transfer-encoding"))
    }

    @Test func theConnectionEndsWithItsStreamOnceThatIsWritten() throws {
        let reader = HTTP1Peer(broker)
        reader.send("GET", messages, [("Accept", "application/x-ndjson")])
        #expect(reader.answer()?.isStream == true)
        broker.turn()
        broker.stalled.insert(reader.id)
        #expect(HTTP1Peer(broker).publish("x") == 200)
        try complete()
        broker.advance(0.5)
        #expect(!reader.isClosed)
        broker.unstall(reader.id)
        let (text, end) = reader.read()
        #expect(text.contains(#""end":"complete""#) && end == .end && reader.isClosed)
    }

    @Test func anEndThatIsLeftUnreadIsGivenUp() throws {
        let reader = HTTP1Peer(broker)
        reader.send("GET", messages)
        #expect(reader.answer()?.isStream == true)
        broker.turn()
        broker.stalled.insert(reader.id)
        #expect(HTTP1Peer(broker).publish("x") == 200)
        try complete()
        broker.advance(59)
        #expect(!reader.isClosed)
        broker.advance(2)
        #expect(reader.isClosed)
    }

    @Test func whatComesBehindAStreamsRequestIsThrownAwayAndBounded() {
        let reader = HTTP1Peer(broker)
        reader.send("GET", messages)
        #expect(reader.answer()?.isStream == true)
        reader.sendBehind(Limits.http1Surplus)
        broker.turn()
        #expect(!reader.isClosed)
        reader.sendBehind(1)
        broker.turn()
        #expect(reader.isClosed)
    }

    @Test func answersBeforeAStreamComeFirst() {
        let reader = HTTP1Peer(broker)
        reader.send("GET", messages)
        broker.turn()
        #expect(broker.shard.answer(on: reader.id, atOnce: false, now: broker.now)?.isStream == true)
        Array("before ".utf8).withUnsafeBytes { broker.shard.beginStream(on: reader.id, behind: $0, now: broker.now) }
        broker.turn()
        #expect(reader.takeWritten().starts(with: Array("before HTTP/1.1 200 OK\r\n".utf8)))
    }

    /// The library no longer holds the memory for the head.
    @Test func aStreamHoldsNothingForTheHeadOfARequest() {
        let before = broker.shard.memory.used
        let peer = HTTP1Peer(broker)
        peer.send("GET", messages)
        #expect(peer.answer()?.isStream == true)
        _ = peer.read()
        #expect(broker.shard.memory.used < before + Limits.http1Memory)
    }

    @Test func aReaderThatStallsHoldsNoMoreThanItsRoom() throws {
        let reader = HTTP1Peer(broker)
        let writer = HTTP1Peer(broker)
        reader.send("GET", messages + "?buffer=5000")
        _ = try #require(reader.answer())
        broker.turn()
        broker.stalled.insert(reader.id)
        let text = String(repeating: "x", count: 10_000)
        for _ in 0..<100 { #expect(writer.publish(text) == 200) }
        let connection = try #require(broker.shard.find(reader.id))
        #expect(try #require(connection.http).bodies.memory + connection.output.count <= 256 << 10)
        broker.unstall(reader.id)
        let (got, _) = reader.read()
        #expect(got.split(separator: "\n").count { $0.hasPrefix("data: xxx") } == 100)
    }
}
