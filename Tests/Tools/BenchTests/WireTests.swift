// WireTests: what is sent, byte by byte, and how responses are read.

import Bytes
import RSocket
import Testing

@testable import Bench

struct WireTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test func natsIsTheClientProtocol() {
        let wire = NATSWire()
        #expect(text(wire.published(topic: 3, payload: 2).bytes) == "PUB bench3 2\r\nxx\r\n")
        #expect(text(wire.delivered(to: Subscription(topic: 3), payload: 2).bytes) == "MSG bench3 1 2\r\nxx\r\n")
        let greeting = wire.subscriber(Subscription())
        #expect(text(greeting.bytes).hasSuffix("}\r\nSUB bench0 1\r\n"))
        #expect(text(greeting.question) == "PING\r\n" && text(greeting.sign) == "PONG\r\n")
        #expect(text(NATSWire.acknowledged(topic: "t", payload: 1).bytes) == "PUB t _INBOX.b 1\r\nx\r\n")
        for (isStored, storage) in [(false, "memory"), (true, "file")] {
            let stream = text(NATSWire.stream(of: "t", isStored: isStored).bytes)
            #expect(stream.contains("PUB $JS.API.STREAM.CREATE.t _INBOX.b "))
            #expect(stream.contains("\"storage\":\"\(storage)\""))
        }
    }

    @Test func sharedTopicsArePublishedToTheirStreamsOrAtANode() throws {
        let wire = SharedWire()
        #expect(
            text(wire.published(topic: 3, payload: 2).bytes)
                == "HPUB fb.p.-.bench3 24 26\r\nNATS/1.0\r\nForebay: 1\r\n\r\nxx\r\n")
        #expect(text(try wire.subscriber(Subscription()).bytes).hasSuffix("bench0?overflow=drop-oldest&buffer=1000000"))
        let fired = SharedWire(publishing: .node).published(topic: 3, payload: 2).bytes
        #expect(Int(fired[2]) == fired.count - 3 && fired[3...8] == [0, 0, 0, 1, 0x15, 0])
        #expect(text(fired).hasSuffix("bench3xx"))
        let stream = RepublishedWire.stream(of: "t", replicas: 3)
        #expect(stream.contains("\"num_replicas\":3") && stream.contains("\"dest\":\"live.t\""))
        #expect(text(RepublishedWire().subscriber(Subscription()).bytes).hasSuffix("SUB live.bench0 1\r\n"))
    }

    @Test func redisIsRESP() {
        let wire = RedisWire()
        #expect(
            text(wire.published(topic: 0, payload: 2).bytes)
                == "*3\r\n$7\r\nPUBLISH\r\n$6\r\nbench0\r\n$2\r\nxx\r\n")
        #expect(
            text(wire.delivered(to: Subscription(), payload: 2).bytes)
                == "*3\r\n$7\r\nmessage\r\n$6\r\nbench0\r\n$2\r\nxx\r\n")
        #expect(text(wire.subscriber(Subscription()).bytes) == "*2\r\n$9\r\nSUBSCRIBE\r\n$6\r\nbench0\r\n")
        let words = ["XADD", "t", "MAXLEN", "~", "1024", "*", "m", "xx"]
        #expect(RedisWire.acknowledged(topic: "t", payload: 2).bytes == RedisWire.command(words))
    }

    @Test func mqttIsQoS0() {
        let wire = MQTTWire()
        #expect(wire.published(topic: 0, payload: 2).bytes == [0x30, 10, 0, 6] + Array("bench0xx".utf8))
        #expect(wire.delivered(to: Subscription(), payload: 2) == wire.published(topic: 0, payload: 2))
        let connect: [UInt8] = [0x10, 12, 0, 4] + Array("MQTT".utf8) + [4, 2, 0, 0, 0, 0]
        #expect(
            wire.subscriber(Subscription()).bytes == connect + [0x82, 11, 0, 1, 0, 6] + Array("bench0".utf8) + [0])
        // The examples of MQTT 3.1.1, table 2.4.
        #expect(MQTTWire.length(127) == [0x7f])
        #expect(MQTTWire.length(128) == [0x80, 1])
        #expect(MQTTWire.length(16_384) == [0x80, 0x80, 1])
    }

    @Test func rsocketSubscribesOnTheStreamThatIsAskedFor() throws {
        let wire = RSocketWire()
        let subscription = Subscription(stream: 9, window: 256)
        let delivered = wire.delivered(to: subscription, payload: 2).bytes
        #expect(delivered == [0, 0, 8, 0, 0, 0, 9, 0x28, 0x20] + Array("xx".utf8))
        #expect(wire.refill(subscription, 128) == [0, 0, 10, 0, 0, 0, 9, 0x20, 0, 0, 0, 0, 128])
        let greeting = try wire.subscriber(subscription)
        // SETUP with its two MIME types, then REQUEST_STREAM.
        let setup = 3 + Int(greeting.bytes[2])
        let request = Array(greeting.bytes[setup...])
        #expect(Array(request[3..<13]) == [0, 0, 0, 9, 0x19, 0, 0, 0, 1, 0])
        #expect(text(request).hasSuffix("bench0?overflow=block&buffer=1000000"))
        #expect(text(greeting.question).hasSuffix("ready"))
    }

    @Test func churningIsASubscriptionAndItsCancelOnOneStream() throws {
        let pair = try RSocketWire.churn(topic: "t")
        let request = Array(pair[..<(3 + Int(pair[2]))])
        #expect(request[3...8] == [0, 0, 0, 1, 0x19, 0])
        #expect(pair[request.count...] == [0, 0, 6, 0, 0, 0, 1, 0x24, 0])
        // The connection has sent nothing else so far.
        let greeting = RSocketWire().connection()
        #expect(greeting.bytes.count == 3 + Int(greeting.bytes[2]))
        #expect(text(greeting.question).hasSuffix("ready"))
    }

    @Test func idleTopicsAreStreamsOfOneConnection() throws {
        let one = RSocketWire().connection()
        let greeting = try RSocketWire().streams(["idle1", "idle22"])
        #expect(greeting.bytes.starts(with: one.bytes) && greeting.question == one.question)
        var rest = greeting.bytes.dropFirst(one.bytes.count)
        for (stream, topic) in [(1, "idle1"), (3, "idle22")] as [(UInt8, String)] {
            let frame = Array(rest.prefix(3 + Int(rest[rest.startIndex + 2])))
            #expect(frame[3...9] == [0, 0, 0, stream, 0x19, 0, 0x7f] && text(frame).hasSuffix(topic))
            rest = rest.dropFirst(frame.count)
        }
        #expect(rest.isEmpty)
    }

    @Test func thePumpMovesAsManyBytesAsForebay() {
        for payload in [16, 128, 16 << 10] {
            let forebay = RSocketWire().delivered(to: Subscription(), payload: payload)
            #expect(PumpWire().delivered(to: Subscription(), payload: payload).size == forebay.size)
        }
    }

    @Test func otherProtocolsHaveNoWindows() {
        for system in System.brokers where ![.forebay, .forebayHTTP, .grpcio].contains(system) {
            #expect(system.wire.refill(Subscription(window: 2), 1) == nil)
            #expect(!system.wire.grantsPublishers)
        }
    }
}

struct ReaderTests {
    private static func frames(_ write: (inout ByteBuffer) -> Void) -> [UInt8] {
        var out = ByteBuffer()
        write(&out)
        return Array(out.readable)
    }

    private static func cut(_ bytes: [UInt8], _ size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    @Test func creditsAddUpHoweverTheyAreCut() throws {
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        let bytes = ReaderTests.frames {
            FrameWriter.requestN(stream: 1, n: 1000, into: &$0)
            FrameWriter.payload(
                stream: 1, next: true, complete: false, metadata: nil, data: nothing, fragment: 0, into: &$0)
            FrameWriter.keepalive(respond: false, position: 0, data: nothing, into: &$0)
            FrameWriter.requestN(stream: 1, n: 24, into: &$0)
            FrameWriter.payload(
                stream: 1, next: false, complete: true, metadata: nil, data: nothing, fragment: 0, into: &$0)
        }
        for size in 1...bytes.count {
            var reader = CreditReader()
            for part in ReaderTests.cut(bytes, size) {
                #expect(!reader.isComplete)
                if reader.granted == 0 { #expect(!reader.isAcknowledged) }
                try part.withUnsafeBytes { try reader.take($0) }
            }
            #expect(reader.granted == 1024)
            #expect(reader.isComplete && reader.isAcknowledged)
        }
    }

    @Test func aRefusalIsTold() {
        let bytes = ReaderTests.frames {
            FrameWriter.error(stream: 1, code: .rejected, message: "no room", into: &$0)
        }
        var reader = CreditReader()
        #expect(throws: BenchError.self) { try bytes.withUnsafeBytes { try reader.take($0) } }
        var answers = AcknowledgementReader(.rsocket)
        #expect(throws: BenchError.self) { _ = try bytes.withUnsafeBytes { try answers.take($0) } }
    }

    @Test func acknowledgementsAreCountedHoweverTheyAreCut() throws {
        let rsocket = ReaderTests.frames { out in
            for (stream, sequence) in [(1, "9"), (3, "10"), (5, "11")] as [(UInt32, String)] {
                let digits = Array(sequence.utf8)
                digits.withUnsafeBytes {
                    FrameWriter.payload(
                        stream: stream, next: true, complete: true, metadata: nil, data: $0, fragment: 0, into: &out)
                }
            }
        }
        var nats = "PING\r\n"
        for sequence in [9, 10, 11] {
            let body = "{\"stream\":\"BENCH\", \"seq\":\(sequence)}"
            nats += "MSG _INBOX.b 1 \(body.utf8.count)\r\n\(body)\r\n"
        }
        // The size in front of an id has one digit or two.
        let redis = "$3\r\n9-0\r\n$15\r\n1700000000000-0\r\n$15\r\n1700000000000-1\r\n"
        let answers: [(AcknowledgementReader.Dialect, [UInt8])] = [
            (.rsocket, rsocket), (.nats, Array(nats.utf8)), (.redis, Array(redis.utf8)),
        ]
        for (dialect, bytes) in answers {
            for size in 1...bytes.count {
                var reader = AcknowledgementReader(dialect)
                var count = 0
                for part in ReaderTests.cut(bytes, size) { count += try part.withUnsafeBytes { try reader.take($0) } }
                #expect(count == 3)
            }
        }
    }

    @Test func refusedPublishesOfRedisAreReported() {
        var reader = AcknowledgementReader(.redis)
        #expect(throws: BenchError.self) {
            _ = try Array("-MISCONF Errors writing to the AOF file\r\n".utf8).withUnsafeBytes { try reader.take($0) }
        }
    }

    @Test func refusedPublishesOfNATSAreTold() {
        let body = "{\"error\":{\"code\":503},\"stream\":\"BENCH\",\"seq\":0}"
        for text in ["MSG _INBOX.b 1 \(body.utf8.count)\r\n\(body)\r\n", "-ERR 'Maximum Payload Violation'\r\n"] {
            var reader = AcknowledgementReader(.nats)
            #expect(throws: BenchError.self) {
                _ = try Array(text.utf8).withUnsafeBytes { try reader.take($0) }
            }
        }
    }
}
