// A connection that outlives its socket: nothing is lost or duplicated wherever it breaks, and its resources are
// bounded.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct ResumingTests {
    // Every byte

    /// A subscription with credit, a channel, acknowledged publishes, one fragmented, a refusal, a cancel, and the end
    /// of a topic. Another client publishes and subscribes, so that both directions can be compared.
    private func converse(_ cuts: ResumingClient.Cuts, shards: Int) -> (client: ResumingClient, topic: [String]) {
        let broker = TestBroker(shards: shards)
        let other = broker.connect(shards - 1)
        other.subscribe("t.in", stream: 1)
        let client = ResumingClient(broker, cuts: cuts)
        client.subscribe("t.out?meta=on", n: 2, stream: 1)
        for n in 1...3 { other.publish("t.out", "m\(n)", stream: UInt32(1 + 2 * n)) }
        client.take()
        client.request("t.in", "c0") {
            FrameWriter.requestChannel(
                stream: 3, initialN: 9, complete: false, metadata: $0, data: $1, fragment: 0, into: &$2)
        }
        // One by one, so that acknowledgements are conflated in the same way each time.
        client.send { Self.item("c1", stream: 3, complete: false, into: &$0) }
        client.send { Self.item("c2", stream: 3, complete: true, into: &$0) }
        client.send { FrameWriter.requestN(stream: 1, n: 2, into: &$0) }
        client.publish("t.in", "p1", stream: 5)
        client.publish("t.in", String(repeating: "long", count: 30), stream: 7, fragment: 64)
        client.acknowledge()
        client.publish("no/topic", "x", stream: 9)
        client.subscribe("t.out?replay=all", n: 9, stream: 11)
        for n in 4...5 { other.publish("t.out", "m\(n)", stream: UInt32(1 + 2 * n)) }
        client.take()
        client.send { FrameWriter.cancel(stream: 11, into: &$0) }
        other.publish("t.out", "m6", stream: 13)
        client.send { FrameWriter.requestN(stream: 1, n: 9, into: &$0) }
        client.publish("$SYS.topic.complete?name=t.out", "", stream: 13)
        client.take()
        client.publish("t.in", "p2", stream: 15)
        client.take()
        return (client, other.received().filter { $0.hasPrefix("1:") })
    }

    static func item(_ text: String, stream: UInt32, complete: Bool, into buffer: inout ByteBuffer) {
        Array(text.utf8).withUnsafeBytes {
            FrameWriter.payload(
                stream: stream, next: true, complete: complete, metadata: nil, data: $0, fragment: 0, into: &buffer)
        }
    }

    private let streams = [1, 3, 5, 7, 9, 11, 13, 15]

    private func compare(
        _ cuts: ResumingClient.Cuts, shards: Int, with whole: (client: ResumingClient, topic: [String])
    ) {
        let (client, topic) = converse(cuts, shards: shards)
        let count = cuts.incoming.count + cuts.outgoing.count
        #expect(client.breaks == count && client.refusal == nil, "\(cuts) \(client.refusal ?? "")")
        #expect(topic == whole.topic, "\(cuts)")
        for stream in streams { #expect(client.lines(of: stream) == whole.client.lines(of: stream), "\(cuts)") }
        #expect(client.lines.count == whole.client.lines.count, "\(cuts): \(client.lines)")
    }

    @Test func theConversationIsAsItIsMeant() {
        let (client, topic) = converse(ResumingClient.Cuts(), shards: 1)
        #expect(
            topic == ["1:c0", "1:c1", "1:c2", "1:p1", "1:" + String(repeating: "long", count: 30), "1:p2"])
        #expect(
            client.lines(of: 1) == ["1:[1]m1", "1:[2]m2", "1:[3]m3", "1:[4]m4", "1:[5]m5", "1:[6]m6", "1:|"])
        #expect(client.lines(of: 3).count >= 3 && client.lines(of: 3).last?.hasSuffix("|") == true)
        #expect(client.lines(of: 9).first?.hasPrefix("9:! 204") == true)
        #expect(client.lines(of: 11) == ["11:m1", "11:m2", "11:m3", "11:m4", "11:m5"])
        #expect(client.lines(of: 15) == ["15:6|"])
        #expect(client.incoming > 300 && client.outgoing > 300)
    }

    @Test(arguments: [1, 2]) func aSocketMayBreakAtAnyByteFromTheBroker(shards: Int) {
        let whole = converse(ResumingClient.Cuts(), shards: shards)
        for cut in 0...whole.client.incoming {
            // At 0 nothing has been received, so nothing breaks.
            guard cut > 0 else { continue }
            compare(ResumingClient.Cuts(incoming: [cut]), shards: shards, with: whole)
        }
    }

    @Test(arguments: [1, 2]) func aSocketMayBreakAtAnyByteToTheBroker(shards: Int) {
        let whole = converse(ResumingClient.Cuts(), shards: shards)
        for cut in 0...whole.client.outgoing {
            compare(ResumingClient.Cuts(outgoing: [cut]), shards: shards, with: whole)
        }
    }

    /// Sockets break several times, and during resumption as well.
    @Test(arguments: 0..<100) func socketsMayBreakAgainAndAgain(_ seed: UInt64) {
        var random = LedgerRandom(state: seed &+ 1)
        let shards = 1 + random.next(3)
        let whole = converse(ResumingClient.Cuts(), shards: shards)
        func places(_ most: Int) -> [Int] {
            var at = 0
            return (0..<random.next(8)).compactMap { _ in
                at += 1 + random.next(200)
                return at < most ? at : nil
            }
        }
        let cuts = ResumingClient.Cuts(
            incoming: places(whole.client.incoming), outgoing: places(whole.client.outgoing))
        compare(cuts, shards: shards, with: whole)
    }

    /// Whatever part of a response and of a message after it the old socket took, none of it precedes RESUME_OK.
    @Test(arguments: [false, true]) func theRestOfAnAnswerGoesWithItsSocket(isAlive: Bool) {
        for taken in 0..<60 {
            let broker = TestBroker()
            let client = ResumingClient(broker)
            client.subscribe("a", n: 9, stream: 1)
            client.socket.window = taken
            client.socket.send { buffer in
                Array("are you there?".utf8).withUnsafeBytes {
                    FrameWriter.keepalive(respond: true, position: 0, data: $0, into: &buffer)
                }
            }
            broker.connect().publish("a", "message")
            if !isAlive { client.lose() }
            client.resume()
            #expect(client.resumed == 1 && client.lines == ["1:message"], "\(taken): \(client.lines)")
        }
    }

    // Delays

    /// Sockets break and sessions are resumed while shards take turns late: each message arrives once, in both
    /// directions.
    @Test(arguments: 0..<100) func whateverIsUnderWayWhenASocketBreaksComesOnce(_ seed: UInt64) {
        var random = LedgerRandom(state: seed &+ 1)
        let broker = TestBroker(shards: 3)
        let other = broker.connect(2)
        let client = ResumingClient(broker, shard: random.next(3))
        client.subscribe("t.out?buffer=1000", n: 1, stream: 1)
        broker.chaos = LedgerRandom(state: seed)
        var published = 0
        var offered = 0
        for step in 0..<150 {
            switch random.next(8) {
            case 0, 1:
                published += 1
                other.publish("t.out", "\(published)", stream: UInt32(1 + 2 * step))
            case 2, 3:
                offered += 1
                client.publish("t.in", "\(offered)", stream: UInt32(1 + 2 * offered))
            case 4: client.send { FrameWriter.requestN(stream: 1, n: UInt32(1 + random.next(5)), into: &$0) }
            case 5: client.acknowledge()
            case 6:
                client.lose()
                client.resume(on: random.next(3))
            default: broker.run()
            }
            client.take()
        }
        broker.chaos = nil
        broker.runAll()
        client.take()
        client.lose()
        client.resume()
        client.send { FrameWriter.requestN(stream: 1, n: 1000, into: &$0) }
        #expect(client.refusal == nil)
        #expect(client.lines(of: 1) == (0..<published).map { "1:\($0 + 1)" })
        #expect(client.lines.count == published + offered)
        for n in 0..<offered { #expect(client.lines(of: 3 + 2 * n) == ["\(3 + 2 * n):\(n + 1)|"]) }
        other.subscribe("t.in?replay=all", stream: 999)
        #expect(other.received().suffix(offered) == (0..<offered).map { "999:\($0 + 1)" }[...])
    }
}
