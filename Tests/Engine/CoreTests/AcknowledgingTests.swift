// When the broker requests the position of a client that can resume: no message may wait for lack of such a request.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct AcknowledgingTests {
    /// The peer answers the request, but acknowledges nothing that is still kept.
    @Test func anAnswerAboutWhatWasGivenUpIsOne() {
        var limits = Limits()
        limits.resumeBuffer = 300
        limits.controlOutput = 300
        let broker = TestBroker(limits: limits)
        let client = ResumingClient(broker)
        client.answers = false
        client.subscribe("a?buffer=5", n: 9, stream: 1)
        let other = broker.connect()
        // This is more than half of the buffer: an acknowledgement is requested.
        other.publish("a", String(repeating: "x", count: 200), stream: 1)
        client.take()
        let received = client.received
        // Refusals push that message out of the buffer.
        for n in 0..<6 { client.publish("not a name", "", stream: UInt32(11 + 2 * n)) }
        client.answers = true
        client.socket.send {
            FrameWriter.keepalive(
                respond: false, position: received, data: UnsafeRawBufferPointer(start: nil, count: 0), into: &$0)
        }
        client.take()
        other.publish("a", "2", stream: 3)
        client.take()
        #expect(client.lines.last == "1:2")
    }

    /// Memory is not short when the last message is sent, but it is when the next one arrives.
    @Test func whoKeepsMessagesWhileMemoryIsShortIsAsked() {
        let broker = TestBroker()
        let client = ResumingClient(broker)
        let other = broker.connect()
        client.subscribe("a", n: 1, stream: 1)
        for n in 1...2 { other.publish("a", "\(n)", stream: UInt32(1 + 2 * n)) }
        client.take()
        // Something else uses all of the memory, but memory is not so short that nothing more is kept.
        broker.memory.limit = 1 << 20
        broker.memory.add(1 << 20)
        client.send { FrameWriter.requestN(stream: 1, n: 1, into: &$0) }
        #expect(client.lines == ["1:1"])
        broker.advance(seconds: 0.5)
        client.take()
        #expect(client.lines == ["1:1", "1:2"])
    }

    /// As in the previous test, for the rows of a list.
    @Test func aListGoesOnWhileMemoryIsShort() {
        let broker = TestBroker()
        let client = ResumingClient(broker)
        client.subscribe("a", n: 1, stream: 1)
        broker.connect().publish("a", "1", stream: 1)
        client.take()
        broker.memory.limit = 1
        client.subscribe("$SYS.connections", n: 9, stream: 3)
        #expect(client.lines(of: 3).isEmpty)
        for _ in 0..<8 {
            broker.advance(seconds: 0.5)
            client.take()
        }
        #expect(client.lines(of: 3).last == "3:|")
    }

    /// Clients that acknowledge nothing must not keep others from publishing: the copies kept for them are dropped.
    @Test(arguments: [false, true]) func whoAcknowledgesNothingKeepsNobodyFromPublishing(isGone: Bool) {
        var limits = Limits()
        limits.retain = 1
        let broker = TestBroker(limits: limits)
        let other = broker.connect()
        func publish(_ first: Int) {
            for n in 0..<8 { other.publish("a", String(repeating: "x", count: 50_000), stream: UInt32(first + 2 * n)) }
        }
        publish(1)
        let before = broker.memory.used
        let silent = (0..<4).map { ResumingClient(broker, token: [UInt8](repeating: $0, count: 16)) }
        for client in silent {
            client.answers = false
            client.subscribe("a", n: 99, stream: 1)
        }
        publish(21)
        for client in silent {
            client.take()
            #expect(client.lines.count == 8)
            if isGone { client.lose() }
        }
        broker.memory.limit = before + 100_000
        _ = other.received()
        other.publish("b", "1", stream: 41)
        #expect(other.received().first?.hasPrefix("41:! 202 limit: The broker's memory") == true)
        broker.advance(seconds: 3)
        #expect(broker.memory.used <= broker.memory.limit)
        other.publish("b", "1", stream: 43)
        #expect(other.received() == ["43:1|"])
        // The sessions still exist, but no longer hold what their clients did not acknowledge.
        #expect(broker.shards[0].subscriptions.count == 4)
        silent[0].lose()
        silent[0].resume(has: 0)
        #expect(silent[0].refusal?.hasPrefix("4 gap: The session cannot continue from position 0") == true)
    }

    @Test func whatIsAcknowledgedCountsAsMemoryNoMore() {
        var limits = Limits()
        limits.retain = 1
        let broker = TestBroker(limits: limits)
        let client = ResumingClient(broker)
        client.answers = false
        client.subscribe("a", n: 99, stream: 1)
        let other = broker.connect()
        for n in 0..<5 { other.publish("a", String(repeating: "x", count: 20_000), stream: UInt32(1 + 2 * n)) }
        client.take()
        let before = broker.memory.used
        client.acknowledge()
        #expect(client.lines.count == 5 && broker.memory.used < before - 100_000)
    }

    /// A client names a connection that is in use, with a position from which it cannot resume.
    @Test func aResumeThatIsRefusedDisturbsNobody() {
        let broker = TestBroker()
        let client = ResumingClient(broker)
        client.subscribe("a", n: 99, stream: 1)
        let other = broker.connect()
        other.publish("a", "1", stream: 1)
        client.take()
        TestClient(broker, 0).send {
            FrameWriter.resume(
                token: client.token, lastReceivedServerPosition: 0, firstAvailableClientPosition: 1_000_000, into: &$0)
        }
        #expect(broker.shards[0].counters.resumptionsRefused == 1)
        other.publish("a", "2", stream: 3)
        client.take()
        #expect(client.lines == ["1:1", "1:2"])
    }
}
