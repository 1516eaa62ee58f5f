// HTTP/1.1 without its bytes: successive requests, when responses can be fetched, how much of a stream waits, and what
// ends.

import ForebayWire
import RSocket
import Testing

@testable import Core

@Suite struct HTTP1Tests {
    private let broker = HTTP1Broker()
    private let messages = "/v1/topics/t/messages"

    private func expectNothingLeft(_ broker: HTTP1Broker) {
        broker.turn()
        #expect(broker.shard.connections.count == 0 && broker.shard.streams.count == 0)
        #expect(broker.shard.subscriptions.count == 0 && broker.shard.subscriptions.streamCount == 0)
    }

    @Test func anAnswerWaitsUntilItsEffectsAreCarriedOut() {
        let peer = HTTP1Peer(broker)
        peer.send("POST", messages, [("Content-Length", "1")])
        peer.body([1])
        peer.endRequest()
        #expect(peer.fetch() == nil, "other shards may not have the message yet")
        #expect(peer.answer()?.status == 200)
        #expect(peer.fetch() == nil, "once")
    }

    @Test func aBodyIsTakenWhereOthersUseUpMemory() {
        let memory = broker.shard.memory
        let peer = HTTP1Peer(broker)
        memory.add(memory.limit)
        #expect(peer.publish("x") == 200)
        memory.add(-memory.limit)
    }

    @Test func aRefusalWaitsForTheBody() throws {
        let peer = HTTP1Peer(broker)
        peer.send("POST", "/nothing", [("Content-Length", "10")])
        peer.body([1, 2, 3])
        #expect(peer.answer() == nil)
        peer.body([4, 5, 6, 7, 8, 9, 10])
        peer.endRequest()
        let answer = try #require(peer.answer())
        #expect(answer.status == 404 && answer.length == peer.read().text.utf8.count && !answer.isLast)
        peer.over()
        #expect(peer.publish("next") == 200)
    }

    @Test func aRefusalDoesNotWaitForEver() {
        let peer = HTTP1Peer(broker)
        peer.send("POST", "/nothing", [("Content-Length", "10")])
        broker.advance(1)
        #expect(peer.answer() == nil)
        broker.advance(1.5)
        #expect(peer.answer()?.status == 404)
        peer.over(isLast: true)
        broker.advance(2.5)
        #expect(peer.isClosed)
        expectNothingLeft(broker)
    }

    @Test func whoAsksBeforeTheBodyIsRefusedAtOnce() {
        let peer = HTTP1Peer(broker)
        peer.send("POST", "/nothing", [("Content-Length", "10"), ("Expect", "100-continue")])
        #expect(peer.fetch(atOnce: true)?.status == 404)
        peer.over()
        peer.send("POST", messages, [("Content-Length", "1"), ("Expect", "100-continue")])
        #expect(peer.fetch(atOnce: true) == nil)
        peer.body([1])
        peer.endRequest()
        #expect(peer.answer()?.status == 200)
    }

    @Test func aStreamBeginsBehindItsRequestOrAtOnce() {
        let peer = HTTP1Peer(broker)
        peer.send("GET", messages, [("Content-Length", "1")])
        #expect(peer.answer() == nil, "it could not continue after the rest of the request")
        peer.body([1])
        #expect(peer.answer() == nil)
        peer.endRequest()
        #expect(peer.answer().map { $0.status == 200 && $0.length == nil } == true)
        let other = HTTP1Peer(broker)
        other.send("GET", messages, [("Content-Length", "1")])
        #expect(other.fetch(atOnce: true).map { $0.status == 200 && $0.length == nil } == true)
    }

    @Test func aBodyThatGrowsTooLongIsRefused() {
        let peer = HTTP1Peer(broker)
        peer.send("POST", messages, [("Transfer-Encoding", "chunked")])
        for _ in 0..<20 { peer.body([UInt8](repeating: 1, count: 64 << 10)) }
        peer.endRequest()
        #expect(peer.answer()?.status == 413)
        #expect(broker.shard.topics.all.allSatisfy { TopicName.isSystem($0.name) })
    }

    @Test func aBodyThatIsLateIsRefused() {
        let peer = HTTP1Peer(broker)
        peer.send("POST", messages, [("Content-Length", "5")])
        broker.advance(29)
        #expect(peer.answer() == nil)
        broker.advance(2)
        #expect(peer.answer()?.status == 408)
    }

    @Test func aStreamWhoseBodyIsLateIsRefused() {
        let peer = HTTP1Peer(broker)
        peer.send("GET", messages, [("Content-Length", "5")])
        broker.advance(29)
        #expect(peer.answer() == nil)
        #expect(broker.shard.subscriptions.count == 1)
        broker.advance(2)
        #expect(peer.answer()?.status == 408)
        #expect(broker.shard.subscriptions.count == 0)
        let (text, end) = peer.read()
        #expect(text.contains("/problems/timeout") && !text.contains("subscribed") && end == .end)
        peer.over(isLast: true)
        broker.advance(2.5)
        expectNothingLeft(broker)
    }

    @Test(arguments: [true, false]) func aStreamThatHasBegunHasNoLimitOfTime(atOnce: Bool) {
        let peer = HTTP1Peer(broker)
        peer.send("GET", messages, [("Content-Length", "1")])
        if atOnce {
            #expect(peer.fetch(atOnce: true)?.status == 200)
        } else {
            broker.advance(20)
            peer.body([1])
            peer.endRequest()
            #expect(peer.answer()?.status == 200)
        }
        broker.advance(40)
        #expect(broker.shard.subscriptions.count == 1)
        let (text, end) = peer.read()
        #expect(text.contains("subscribed") && !text.contains("failed") && end == .later)
    }

    @Test func whatAConnectionHoldsCounts() {
        let before = broker.shard.memory.used
        let peer = HTTP1Peer(broker)
        #expect(broker.shard.memory.used == before + Limits.http1Untouched)
        peer.send("GET", "/nothing")
        #expect(broker.shard.memory.used >= before + Limits.http1Memory)
        _ = peer.answer()
        peer.over()
        let used = broker.shard.memory.used
        peer.lose()
        #expect(broker.shard.memory.used == used - Limits.http1Memory)
    }

    /// Beyond an eighth of the memory, no connection is kept for another request.
    @Test func idleConnectionsHaveAShareOfTheMemory() {
        var limits = Limits()
        limits.memory = 8 << 20
        let broker = HTTP1Broker(limits)
        let most = (limits.memory / 8) / Limits.http1Memory
        func asks(_ peer: HTTP1Peer) -> Bool {
            peer.send("GET", "/nothing")
            let isLast = peer.answer()?.isLast == true
            _ = peer.read()
            peer.over(isLast: isLast)
            return isLast
        }
        let kept = (0..<most).map { _ in HTTP1Peer(broker) }
        for peer in kept { #expect(!asks(peer)) }
        for _ in 0..<100 { #expect(asks(HTTP1Peer(broker))) }
        #expect(asks(kept[0]))
        broker.advance(3)
        // Slots are free again, including those of clients that left before they sent a request.
        HTTP1Peer(broker).lose()
        #expect(!asks(HTTP1Peer(broker)))
        #expect(broker.shard.memory.used <= limits.memory / 8 + (64 << 10), "\(broker.shard.memory.used)")
        // This connection waits for its response, which comes too late.
        kept[1].send("POST", "/v1/topics/t/messages", [("Content-Length", "1")])
        for peer in kept { peer.lose() }
        broker.advance(1)
        #expect(broker.shard.pool.http1 == Limits.http1Memory)
    }

    @Test func theClientsEndIsAStreamsButNoOther() {
        let reader = HTTP1Peer(broker)
        reader.send("GET", messages)
        _ = reader.answer()
        broker.shard.receiveEnd(on: reader.id, now: broker.now)
        broker.turn()
        #expect(reader.isClosed)
        let writer = HTTP1Peer(broker)
        writer.send("POST", messages, [("Content-Length", "1")])
        broker.shard.receiveEnd(on: writer.id, now: broker.now)
        writer.body([1])
        writer.endRequest()
        #expect(writer.answer()?.status == 200)
        // A stream that would begin after the client's end is refused.
        writer.over()
        writer.send("GET", messages)
        #expect(writer.answer()?.status == 400 && writer.read().text.contains("closed its side"))
        writer.over()
        writer.send("POST", "/v1/topics/*/messages", [("Content-Length", "2")])
        writer.body(Array("{}".utf8))
        writer.endRequest()
        #expect(writer.answer()?.status == 400 && writer.read().text.contains("closed its side"))
        #expect(broker.shard.context.counters.subscriptionsOpened == 1)
        writer.lose()
        expectNothingLeft(broker)
    }

    @Test func timeEndsWhatDoesNotGoOn() {
        let silent = HTTP1Peer(broker)
        broker.advance(5.5)
        #expect(silent.isClosed)
        let idle = HTTP1Peer(broker)
        let deaf = HTTP1Peer(broker)
        let reader = HTTP1Peer(broker)
        #expect(idle.publish("x") == 200)
        deaf.send("GET", "/nothing")
        #expect(deaf.answer()?.status == 404)
        reader.send("GET", messages)
        _ = reader.answer()
        _ = reader.read()
        broker.advance(59)
        #expect(!idle.isClosed && !deaf.isClosed)
        broker.advance(2)
        #expect(idle.isClosed && deaf.isClosed && !reader.isClosed)
        #expect(reader.read().text.hasPrefix(":"), "keepalives")
    }

    @Test func drainingTellsStreamsAndClosesConnections() throws {
        let reader = HTTP1Peer(broker)
        let idle = HTTP1Peer(broker)
        #expect(idle.publish("x") == 200)
        reader.send("GET", messages + "?replay=1", [("Accept", "application/x-ndjson")])
        _ = reader.answer()
        broker.shard.drain(now: broker.now)
        #expect(reader.read().text.contains(#""payload":"x""#))
        broker.advance(0.5)
        #expect(idle.isClosed)
        let (text, end) = reader.read()
        #expect(text == #"{"end":"draining"}"# + "\n" && end == .end)
        reader.over()
        expectNothingLeft(broker)
    }

    @Test func aSecondRequestBeforeTheEndOfTheFirstIsNone() {
        let peer = HTTP1Peer(broker)
        peer.send("GET", messages)
        peer.send("GET", "/nothing")
        #expect(peer.answer()?.status == 200)
    }

    /// Inputs in any order: nothing traps, and nothing is left behind.
    @Test(arguments: 0..<50 as Range<UInt64>) func anyOrderOfInputs(seed: UInt64) {
        var random = LedgerRandom(state: seed)
        let broker = HTTP1Broker()
        var peers = (0..<3).map { _ in HTTP1Peer(broker) }
        for _ in 0..<400 {
            let index = random.next(peers.count)
            let peer = peers[index]
            switch random.next(17) {
            case 0: peer.send("GET", messages + (random.next(2) == 0 ? "?replay=all" : ""))
            case 1: peer.send("POST", messages, [("Content-Length", "3")])
            case 2: peer.send("POST", "/nothing", [("Transfer-Encoding", "chunked")])
            case 3: peer.send("HEAD", messages)
            case 4: peer.send("OPTIONS", "*", [("Expect", "100-continue"), ("Content-Length", "3")])
            case 5: peer.body([1, 2, 3])
            case 6: peer.endRequest()
            case 7: _ = peer.fetch(atOnce: random.next(4) == 0)
            case 8: _ = peer.read(random.next(200) + 1, piece: random.next(50) + 1)
            case 9: peer.over(isLast: random.next(4) == 0)
            case 10: broker.shard.receiveEnd(on: peer.id, now: broker.now)
            case 11: broker.advance(0.25)
            case 12: peer.lose()
            case 13: peer.sendBehind(random.next(40_000))
            case 14: broker.stalled.insert(peer.id)
            case 15: broker.unstall(peer.id)
            default: broker.turn()
            }
            if broker.shard.find(peer.id) == nil { peers[index] = HTTP1Peer(broker) }
        }
        for peer in peers { peer.lose() }
        expectNothingLeft(broker)
    }
}

@Suite struct HTTP1RequestTests {
    @Test(
        arguments: [
            ([("Host", "h")], nil, false),
            ([], "invalid", false),
            ([("Host", "h"), ("host", "i")], "invalid", false),
            ([("Host", "h"), ("Content-Length", "5")], nil, false),
            ([("Host", "h"), ("Content-Length", "5"), ("Content-Length", "5")], "invalid", true),
            ([("Host", "h"), ("Content-Length", "18446744073709551615")], nil, false),
            ([("Host", "h"), ("Content-Length", "18446744073709551616")], "invalid", true),
            ([("Host", "h"), ("Content-Length", "184467440737095516150")], "invalid", true),
            ([("Host", "h"), ("Content-Length", "-1")], "invalid", true),
            ([("Host", "h"), ("Content-Length", "5 ")], "invalid", true),
            ([("Host", "h"), ("Content-Length", "")], "invalid", true),
            ([("Host", "h"), ("Content-Length", "5"), ("transfer-encoding", "chunked")], "invalid", true),
            ([("Host", "h"), ("Transfer-Encoding", "Chunked")], nil, false),
            ([("Host", "h"), ("Transfer-Encoding", "gzip, chunked")], "invalid", true),
            ([("Host", "h"), ("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")], "invalid", true),
            ([("Host", "h"), ("Content-Length ", "5")], "invalid", true),
            ([("Host", "h"), ("", "5")], "invalid", true),
            ([("Host", "h"), ("X", "a\rb")], "invalid", true),
            ([("Host", "h"), ("X", "a\tb")], nil, false),
            ([("Host", "h"), ("X", String(repeating: "a", count: 20_000))], "headers-too-large", true),
            ([("Host", "h"), ("Content-Type", "application/grpc+proto")], "http-version", false),
        ] as [([(String, String)], String?, Bool)])
    func whatIsWrongIsTold(fields: [(String, String)], problem: String?, isAmbiguous: Bool) {
        let head = HTTP1Peer.head("POST", "/", fields)
        #expect(head.problem?.kind.rawValue == problem)
        #expect(head.isAmbiguous == isAmbiguous)
    }

    /// On the paths of plain HTTP, gRPC's content types are types of messages.
    @Test(arguments: [
        ("/v1/topics/t/messages", nil), ("http://h/v1/topics/t/messages", nil), ("/v1x", "http-version"),
        ("/forebay.v1.PubSub/Publish", "http-version"), ("http://h/forebay.v1.PubSub/Publish", "http-version"),
    ])
    func thePathTellsWhatIsGRPC(target: String, problem: String?) {
        for type in ["application/grpc", "application/grpc+json", "application/grpc-web"] {
            let head = HTTP1Peer.head("POST", target, [("Host", "h"), ("Content-Type", type)])
            #expect(head.problem?.kind.rawValue == problem)
        }
    }

    @Test func http10NeedsNoHostAndHasNoChunks() {
        #expect(HTTP1Peer.head("GET", "/", [], version: "HTTP/1.0").problem == nil)
        let chunked = HTTP1Peer.head("POST", "/", [("Transfer-Encoding", "chunked")], version: "HTTP/1.0")
        #expect(chunked.problem != nil && chunked.isAmbiguous)
    }

    @Test func aWholeURIHasItsOwnHost() {
        #expect(HTTP1Peer.head("GET", "http://a:1/x?y", [("Host", "h")]).plain.authority == "a:1")
        #expect(HTTP1Peer.head("GET", "/x?y=http://a", [("Host", "h")]).plain.authority == "h")
    }
}
