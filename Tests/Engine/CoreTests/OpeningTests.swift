// opening=on: a subscription's position before its first message, on every protocol; and options from a control
// request's data.

import Bytes
import ForebayWire
import HTTP2
import RSocket
import Testing

@testable import Core

@Suite struct OpeningTests {
    /// The frames that have arrived, with an opening as "1:<epoch next>".
    private func lines(_ client: TestClient) -> [String] {
        var lines: [String] = []
        client.takeFrames { frame in
            if let decoded = try? Frame.decode(frame.bytes), case .payload(true, false, let content) = decoded.body,
                let metadata = content.metadata, let opening = OpeningPosition(metadata: frame.slice(metadata))
            {
                #expect(content.data.isEmpty)
                lines.append("\(decoded.stream):<\(opening.epoch) \(opening.next)>")
            } else {
                lines.append(TestClient.describe(frame))
            }
        }
        return lines
    }

    private func epoch(_ broker: TestBroker, _ topic: String = "t") -> UInt64 {
        broker.shards.lazy.compactMap { $0.topics[topic] }.first!.epoch
    }

    /// Where a subscription begins on a topic that has messages 1 to 5.
    private static let starts = [
        "opening=on": 6, "opening=on&meta=on": 6, "opening=on&replay=2": 4, "opening=on&replay=all": 1,
        "opening=on&from=3": 3, "opening=on&from=9&meta=on": 6, "opening=on&replay=all&overflow=latest": 5,
    ]

    @Test(arguments: [0, 1], starts.keys.sorted())
    func thePositionComesFirst(_ shard: Int, _ options: String) throws {
        let next = try #require(Self.starts[options])
        let broker = TestBroker(shards: 2)
        let publisher = broker.connect()
        for _ in 0..<5 { publisher.publish("t", "x") }
        let client = broker.connect(shard)
        client.subscribe("t?" + options, n: 1)
        #expect(lines(client) == ["1:<\(epoch(broker)) \(next)>"])
        publisher.publish("t", "x")
        // The opening used the credit.
        #expect(lines(client) == [])
        client.requestN(1)
        #expect(lines(client).count == 1)
    }

    @Test func withoutItNothingComes() {
        let broker = TestBroker()
        let client = broker.connect()
        client.subscribe("t?opening=off", n: 1)
        #expect(client.received() == [])
        client.publish("t", "a")
        #expect(client.received().sorted() == ["1:a", "3:1|"])
    }

    @Test func itComesBeforeAnEnd() {
        let broker = TestBroker()
        let client = broker.connect()
        client.publish("t", "a")
        client.publish("$SYS.topic.complete?name=t", "")
        _ = client.received()
        client.subscribe("t?opening=on", n: 1)
        #expect(lines(client) == ["1:<\(epoch(broker)) 2>", "1:|"])
        client.subscribe("t?opening=on&replay=all", n: 2, stream: 5)
        #expect(lines(client) == ["5:<\(epoch(broker)) 1>", "5:a", "5:|"])
    }

    @Test func whatIsRefusedHasNone() {
        let broker = TestBroker()
        let client = broker.connect()
        client.publish("t", "a")
        client.subscribe("t?opening=on&from=7&gap=fail", n: 1)
        #expect(lines(client).last?.hasPrefix("1:! 202 gap: ") == true)
    }

    @Test func unboundedDemandStaysUnbounded() {
        let broker = TestBroker()
        let client = broker.connect()
        client.subscribe("t?opening=on")
        for _ in 0..<3 { client.publish("t", "a") }
        #expect(lines(client).filter { $0.hasPrefix("1:") }.count == 4)
    }

    @Test func overGRPCItIsInTheFirstResponse() {
        let broker = TestBroker()
        broker.connect().publish("t", "a")
        let peer = TestGRPC(broker)
        let stream = peer.subscribe("t", n: 1, opening: true)
        let first = peer[stream].responses()
        #expect(first.map(\.next) == [2] && first.map(\.epoch) == [epoch(broker)] && first.map(\.outstanding) == [1])
        broker.connect().publish("t", "b")
        peer.read()
        let second = peer[stream].responses()
        #expect(second.map(\.next) == [0] && second.flatMap { $0.messages.map(\.text) } == ["b"])
        let plain = peer.subscribe("t")
        #expect(peer[plain].responses().map(\.next) == [0])
    }

    @Test func overHTTPItIsTheFirstEventOrLine() {
        let broker = TestBroker()
        for _ in 0..<3 { broker.connect().publish("t", "a") }
        let epoch = epoch(broker)
        let peer = TestGRPC(broker)
        let lines = peer.listen("t", last: 1, options: "&opening=on&request=1")
        #expect(peer[lines].text.hasPrefix("{\"epoch\":\"\(epoch)\",\"next\":3}\n{\"sequence\":3,"))
        let events = peer.listen("t", accept: "text/event-stream", options: "&opening=on")
        #expect(peer[events].text.hasPrefix("retry: 1000\nid: \(epoch)-3\nevent: subscribed\ndata: {\"subscription\":"))
        #expect(peer[events].text.hasSuffix("\",\"epoch\":\"\(epoch)\",\"next\":4}\n\n"))
        let without = peer.listen("t")
        #expect(peer[without].text == "")
    }

    /// Openings that a client does not read count like other answers: the broker stops reading from that client.
    @Test func openingsThatAreNotReadAreBounded() {
        let broker = TestBroker()
        let client = broker.connect()
        client.window = 0
        for number in 0..<4_000 {
            let stream = UInt32(2 * number + 1)
            client.subscribe("t?opening=on", n: 1, stream: stream)
            client.cancel(stream: stream)
        }
        guard let connection = broker.shards[0].connections.find(client.id) else {
            Issue.record("the connection is closed")
            return
        }
        let limit = broker.shards[0].limits.controlOutput
        let (count, answers) = (connection.output.count, connection.output.unreadAnswers)
        #expect(count < 2 * limit && answers > limit / 2, "\(count) bytes, \(answers) of answers")
    }

    // Options in a control request's data

    @Test func controlRequestsTakeOptionsFromTheirData() throws {
        let broker = TestBroker()
        let name = String(repeating: "n", count: 255)
        let client = broker.connect()
        client.publish(name, "a")
        _ = client.received()
        let reason = String(repeating: "r", count: 1024)
        client.publish("$SYS.topic.fail", "name=\(name)&message=\(reason)")
        #expect(client.received().first?.contains("\"state\":\"failed\"") == true)
        client.publish("$SYS.topic.info?name=\(name)", "for=publish&x-later=1")
        #expect(client.received().first?.contains("\"error\":\"\(reason)\"") == true)
        client.publish("$SYS.topic.info?name=t", "name=t")
        #expect(client.received().first?.hasPrefix("3:! 204 invalid: The option 'name' is given twice") == true)
        client.publish("$SYS.info", "what=1")
        #expect(client.received().first?.hasPrefix("3:! 204 invalid: The option 'what' is unknown") == true)
        client.publish("$SYS.topic.fail", "name=%6eo&message=\(String(repeating: "%61", count: 4096))")
        #expect(client.received().first?.hasPrefix("3:! 202 too-large: The request's data has") == true)
        client.publish("$SYS.topic.fail", "name=%6eo&message=%61%26b")
        #expect(client.received().first?.hasPrefix("3:! 202 not-found: ") == true)
    }

    @Test func theBrokerNamesItsFeatures() {
        for (time, features) in [
            (0, #""control-data","opening","since""#), (30, #""control-data","opening","resume","since""#),
        ] {
            var limits = Limits()
            limits.resumeTime = UInt64(time) * Limits.second
            let client = TestBroker(limits: limits).connect()
            client.publish("$SYS.info", "")
            #expect(client.received().first?.contains("\"protocol\":1,\"features\":[\(features)]") == true)
        }
    }
}
