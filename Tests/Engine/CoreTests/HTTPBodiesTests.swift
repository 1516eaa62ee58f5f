// What the bodies of one HTTP/2 connection's streams may hold together, whatever the peer does with its windows: the
// sum is bounded, streams that wait are served in turn, and only these are delayed.

import HTTP2
import HTTP2Frames
import Testing

@testable import Core

@Suite struct HTTPBodiesTests {
    enum WireProtocol: CaseIterable { case call, plain }

    private static let long = String(repeating: "x", count: 20_000)

    private func limits() -> Limits {
        var limits = Limits()
        limits.output = 30_000
        limits.beyondWindows = 100_000
        return limits
    }

    private func subscribe(_ peer: TestGRPC, _ wireProtocol: WireProtocol, _ count: Int, all: Bool = false) -> [UInt32]
    {
        (0..<count).map { _ in wireProtocol == .call ? peer.subscribe("t", all: all) : peer.listen("t", all: all) }
    }

    private func publish(_ broker: TestBroker, _ texts: [String]) {
        let client = broker.connect()
        for (index, text) in texts.enumerated() { client.publish("t", text, stream: UInt32(2 * index + 1)) }
        client.disconnect()
    }

    /// Bytes that all streams of a connection hold.
    private func held(_ peer: TestGRPC) -> Int { peer.http!.exchanges.all.reduce(0) { $0 + $1.body.count } }

    /// The bytes of DATA that each stream receives from now on.
    private func received(_ peer: TestGRPC, _ streams: [UInt32]) -> [Int] { streams.map { peer[$0].received } }

    /// No message is sent in part, so a message larger than its window waits in the stream. With a thousand streams, a
    /// thousand messages would wait.
    @Test(arguments: WireProtocol.allCases) func messagesBeyondTheWindowsAreBounded(_ wireProtocol: WireProtocol) {
        let broker = TestBroker(limits: limits())
        let peer = TestGRPC(broker, window: 1000, connectionWindow: 1 << 30)
        let streams = subscribe(peer, wireProtocol, 50)
        peer.opensWindows = false
        let before = received(peer, streams)
        publish(broker, [Self.long, "short"])
        peer.read()
        #expect(held(peer) > 80_000 && held(peer) < 100_000 + 2 * 21_000 + 30_000, "\(held(peer))")
        #expect(peer.http!.bodies.bytes == held(peer) && peer.http!.bodies.beyond <= 121_000)
        // Streams that have begun have filled their windows; those that wait have received nothing.
        let begun = zip(streams, before).filter { peer[$0.0].received > $0.1 }
        #expect((4...6).contains(begun.count))
        // Every stream receives everything once the peer reads.
        peer.openAllWindows()
        for _ in 0..<10 {
            broker.advance(seconds: 1)
            peer.read()
        }
        for (stream, count) in zip(streams, before) { #expect(peer[stream].received > count + 20_000) }
        #expect(held(peer) == 0 && peer.http!.bodies.beyond == 0 && peer.http!.bodies.bytes == 0)
    }

    /// The windows of the streams allow the data, but the connection's window does not.
    @Test(arguments: WireProtocol.allCases) func theConnectionsWindowIsSharedByAll(_ wireProtocol: WireProtocol) {
        let broker = TestBroker(limits: limits())
        let peer = TestGRPC(broker, window: 1 << 24)
        let streams = subscribe(peer, wireProtocol, 50)
        peer.opensWindows = false
        let before = received(peer, streams)
        publish(broker, (0..<20).map { "\($0)." + String(repeating: "x", count: 2000) })
        peer.read()
        #expect(held(peer) <= 30_000 + 2 * 2200, "\(held(peer))")
        peer.openAllWindows()
        for (stream, count) in zip(streams, before) { #expect(peer[stream].received > count + 40_000) }
        #expect(held(peer) == 0)
    }

    /// Stalled streams hold as much as is allowed; other streams, whose windows fit their messages, are not affected.
    @Test(arguments: WireProtocol.allCases) func whoseWindowHoldsItsMessagesDoesNotWait(_ wireProtocol: WireProtocol) {
        let broker = TestBroker(limits: limits())
        let peer = TestGRPC(broker, window: 1000, connectionWindow: 1 << 30)
        let streams = subscribe(peer, wireProtocol, 40)
        let moving = streams[20]
        peer.closed = Set(streams).subtracting([moving])
        peer.send(windowUpdate(moving, 1 << 20))
        let before = received(peer, streams)
        for _ in 0..<30 {
            publish(broker, [Self.long])
            peer.read()
        }
        #expect(peer[moving].received > before[20] + 30 * 20_000)
        #expect(held(peer) < 180_000)
    }

    @Test(arguments: WireProtocol.allCases) func whoWaitsIsServedWhenItsWindowGrows(_ wireProtocol: WireProtocol) {
        let broker = TestBroker(limits: limits())
        let peer = TestGRPC(broker, window: 1000, connectionWindow: 1 << 30)
        let streams = subscribe(peer, wireProtocol, 40)
        peer.closed = Set(streams)
        let before = received(peer, streams)
        publish(broker, [Self.long])
        peer.read()
        let waiting = zip(streams, before).filter { peer[$0.0].received == $0.1 }
        #expect(waiting.count > 30)
        let (stream, count) = waiting[waiting.count / 2]
        peer.send(windowUpdate(stream, 100))
        peer.read()
        #expect(peer[stream].received == count)
        peer.send(windowUpdate(stream, 30_000))
        peer.read()
        #expect(peer[stream].received > count + 20_000)
    }

    /// The stream that has waited longest is next when others are cancelled.
    @Test(arguments: WireProtocol.allCases) func whoWaitsIsServedWhenOthersLeave(_ wireProtocol: WireProtocol) throws {
        let broker = TestBroker(limits: limits())
        let peer = TestGRPC(broker, window: 1000, connectionWindow: 1 << 30)
        publish(broker, [Self.long])
        peer.opensWindows = false
        let streams = subscribe(peer, wireProtocol, 40, all: true)
        // A stream that is served fills its window.
        func waiting() -> [UInt32] { streams.filter { peer[$0].received < 900 } }
        var expected = waiting()
        try #require(expected == streams.suffix(expected.count) && expected.count > 30)
        for stream in streams.prefix(5) {
            peer.cancel(stream)
            peer.read()
            expected.removeFirst()
            #expect(waiting() == expected)
        }
        // Waiting streams may be cancelled as well.
        for stream in expected { peer.cancel(stream) }
        for stream in streams { peer.cancel(stream) }
        peer.read()
        #expect(held(peer) == 0 && peer.http!.exchanges.count == 0 && peer.http!.bodies.beyond == 0)
        #expect(broker.shards[0].subscriptions.count == 0)
    }
}
