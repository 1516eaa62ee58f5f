// When the broker asks a client that can resume what it has: no message is to wait because nobody asks.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct AcknowledgingTests {
    /// The peer answers what it was asked, and tells of nothing that is still kept.
    @Test func anAnswerAboutWhatWasGivenUpIsOne() {
        var limits = Limits()
        limits.resumeBuffer = 300
        limits.controlOutput = 300
        let broker = TestBroker(limits: limits)
        let client = ResumingClient(broker)
        client.answers = false
        client.subscribe("a?buffer=5", n: 9, stream: 1)
        let other = broker.connect()
        // More than half of what may be sent: it is asked.
        other.publish("a", String(repeating: "x", count: 200), stream: 1)
        client.take()
        let received = client.received
        // Refusals, which push that message out.
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

    /// Memory was not short when the last message was sent, and is when the next one comes.
    @Test func whoKeepsMessagesWhileMemoryIsShortIsAsked() {
        let broker = TestBroker()
        let client = ResumingClient(broker)
        let other = broker.connect()
        client.subscribe("a", n: 1, stream: 1)
        for n in 1...2 { other.publish("a", "\(n)", stream: UInt32(1 + 2 * n)) }
        client.take()
        broker.memory.limit = 1
        client.send { FrameWriter.requestN(stream: 1, n: 1, into: &$0) }
        #expect(client.lines == ["1:1"])
        broker.advance(seconds: 0.5)
        client.take()
        #expect(client.lines == ["1:1", "1:2"])
    }

    /// As above, of the rows of a list.
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
}
