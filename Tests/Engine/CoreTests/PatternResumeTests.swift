// PatternResumeTests: subscriptions to patterns that continue at a position in each topic, on every protocol.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct PatternResumeTests {
    private func broker(_ shards: Int, _ change: (inout Limits) -> Void = { _ in }) -> TestBroker {
        var limits = Limits()
        change(&limits)
        return TestBroker(shards: shards, limits: limits)
    }

    private func epoch(of topic: String, _ broker: TestBroker) -> UInt64 {
        broker.shards.compactMap { $0.topics[topic] }.first?.epoch ?? 0
    }

    /// The positions as JSON, in the topics' current epochs.
    private func json(_ positions: [(topic: String, sequence: UInt64)], _ broker: TestBroker) -> String {
        let members = positions.map { #""\#($0.topic)": ["\#(epoch(of: $0.topic, broker))", \#($0.sequence)]"# }
        return "{\(members.joined(separator: ", "))}"
    }

    private func expectNothingLeft(_ broker: TestBroker) {
        for shard in broker.shards {
            let streams = shard.parts.tables.streams
            for stream in (0..<streams.bound).compactMap(streams.at) where stream.kind == .pattern {
                #expect(stream.asPattern.beginning.positions.isEmpty)
            }
        }
    }

    /// Topics with a position continue there; others follow the options.
    @Test(arguments: DeliveryTests.placements)
    func namedTopicsContinueAtTheirPositions(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let publisher = broker.connect(from)
        for text in ["1", "2", "3"] { for topic in ["t.a", "t.b", "t.c"] { publisher.fireAndForget(topic, text) } }
        let subscriber = broker.connect(at)
        let data = json([("t.a", 2), ("t.b", 4)], broker)
        for (stream, options) in [(1, ""), (3, "?replay=1"), (5, "?since=-1d"), (7, "?replay=all&gap=fail")] {
            subscriber.subscribe("t.*" + options, data: data, stream: UInt32(stream))
        }
        expectNothingLeft(broker)
        for topic in ["t.a", "t.b", "t.c", "t.d"] { publisher.fireAndForget(topic, "new") }
        var expected: [String] = []
        for (stream, others) in [(1, []), (3, [3]), (5, [1, 2, 3]), (7, [1, 2, 3])] {
            expected += [2, 3].map { "\(stream):[\($0)]t.a:\($0)" } + others.map { "\(stream):[\($0)]t.c:\($0)" }
            expected += ["t.a", "t.b", "t.c"].map { "\(stream):[4]\($0):new" } + ["\(stream):[1]t.d:new"]
        }
        #expect(subscriber.received().sorted() == expected.sorted())
    }

    /// As with `from` and `epoch` in a single topic.
    @Test(arguments: DeliveryTests.placements)
    func whatIsMissingIsReported(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards) { $0.retain = 2 }
        let publisher = broker.connect(from)
        for topic in ["t.old", "t.other", "t.early"] {
            for text in 1...4 { publisher.fireAndForget(topic, "\(text)") }
        }
        let subscriber = broker.connect(at)
        let other = #", "t.other": ["7", 2]}"#
        let data = json([("t.old", 1), ("t.early", 9)], broker).dropLast() + other
        subscriber.subscribe("t.*", data: String(data))
        subscriber.subscribe("t.old?gap=fail", stream: 3)
        publisher.fireAndForget("t.early", "5")
        #expect(
            subscriber.received().sorted() == [
                "1:[3-2]t.old:3", "1:[3]t.other:3", "1:[4]t.old:4", "1:[4]t.other:4", "1:[5]t.early:5",
            ])
        for (stream, topic, sequence) in [(5, "t.old", 1), (7, "t.early", 9)] {
            subscriber.subscribe(
                "t.*?gap=fail", data: json([(topic, UInt64(sequence))], broker), stream: UInt32(stream))
            let received = subscriber.received()
            #expect(received.count == 1 && received[0].contains("gap: topic '\(topic)': "))
            #expect(received[0].contains("\(sequence) was requested"))
        }
        subscriber.subscribe("t.*?gap=fail", data: "{\(other.dropFirst(2))", stream: 9)
        #expect(subscriber.received().first?.contains("gap: topic 't.other': The topic 't.other' restarted") == true)
        #expect(broker.quotas.patterns.value == 1)
    }

    /// A position of another epoch is none, even if the topic is just as long now.
    @Test(arguments: DeliveryTests.placements)
    func aTopicThatIsAsLongAsBeforeIsReceivedFromItsStart(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let publisher = broker.connect(from)
        for text in ["1", "2"] { publisher.fireAndForget("t.a", text) }
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*", data: #"{"t.a": ["7", 3]}"#)
        #expect(subscriber.received() == ["1:[1]t.a:1", "1:[2]t.a:2"])
    }

    /// A topic that does not exist has no position yet. When it is created, all of it is new.
    @Test(arguments: DeliveryTests.placements)
    func aTopicThatIsCreatedLaterIsReceivedFromItsStart(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*?gap=fail", data: #"{"t.a": ["7", 100], "t.b": ["8", 1]}"#)
        expectNothingLeft(broker)
        let publisher = broker.connect(from)
        for text in ["1", "2"] { publisher.fireAndForget("t.a", text) }
        #expect(subscriber.received() == ["1:[1]t.a:1", "1:[2]t.a:2"])
    }

    @Test func aPositionMayBeAnyNumber() {
        let broker = broker(1)
        let publisher = broker.connect()
        publisher.fireAndForget("t.a", "1")
        let subscriber = broker.connect()
        let last = json([("t.a", .max)], broker)
        subscriber.subscribe("t.*", data: " \t\n\(last.replacing("t.a", with: "t\\u002ea"))\r\n")
        publisher.fireAndForget("t.a", "2")
        #expect(subscriber.received() == ["1:[2]t.a:2"])
    }

    @Test(arguments: DeliveryTests.placements)
    func callsAndStreamsContinueToo(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let publisher = broker.connect(from)
        for text in ["1", "2", "3"] { for topic in ["t.a", "t.b"] { publisher.fireAndForget(topic, text) } }
        let peer = TestGRPC(broker, at)
        let call = peer.subscribe(
            "t.*", positions: [("t.a", epoch(of: "t.a", broker), 3), ("t.b", 7, 2)])
        let body = json([("t.a", 3)], broker).dropLast() + #", "t.b": ["7", 2]}"#
        let lines = peer.listen("t.*", posting: String(body))
        let events = peer.listen("t.*", accept: "text/event-stream", posting: String(body))
        publisher.fireAndForget("t.b", "4")
        peer.read()
        let named = peer[call].responses().flatMap(\.named)
        #expect(named.sorted() == ["t.a:3", "t.b:1", "t.b:2", "t.b:3", "t.b:4"])
        let rows = peer[lines].text.split(separator: "\n")
        #expect(rows.count == 5)
        // The number of messages missing in another epoch is unknown.
        let restarted = rows.filter { $0.contains(#""restarted":true"#) }
        #expect(restarted.count == 1 && restarted[0].contains(#""topic":"t.b","payload":"1""#))
        let gap = "}\n\nevent: gap\ndata: {\"dropped\":0,\"restarted\":true}\n\ndata: 1\n\n"
        #expect(peer[events].text.contains(gap))
        #expect(peer[events].text.ranges(of: "event: topic").count == 5)
        peer.client.disconnect()
        #expect(broker.quotas.patterns.value == 0)
    }

    static let faults = [
        ("3", "not a JSON object"), ("[]", "not a JSON object"), ("{", "not a JSON object"),
        (#"{"t.a": ["1", 1}"#, "not a JSON object"), (#"{"t.a": "1"}"#, "not a JSON object"),
        (#"{"t.a": ["1", 1, 1]}"#, "not a JSON object"), (#"{"t.a": {"epoch": 1}}"#, "not a JSON object"),
        (#"{"t.a": [["1"], 1]}"#, "not a JSON object"), (#"{"t.a": ["1" 1]}"#, "not a JSON object"),
        (#"{"t.a": ["1", 1],}"#, "not a JSON object"), (#"{"t.a": ["1", 1]} 2"#, "not a JSON object"),
        (#"{"t.a\": ["1", 1]}"#, "not a JSON object"), (#"{"t.\x61": ["1", 1]}"#, "not a JSON object"),
        ("{\"t.\u{1}\": [\"1\", 1]}", "not a JSON object"),
        (#"{"t.a": ["1", 1,,,,,,,,,,]}"#, "not a JSON object"),
        (#"{"t.a": [1, 1]}"#, "The epoch of the position in 't.a' is not a string"),
        (#"{"t.a": ["x", 1]}"#, "The epoch of the position in 't.a' is not a string"),
        (#"{"t.a": ["0", 1]}"#, "The epoch of the position in 't.a' is not a string"),
        (#"{"t.a": ["18446744073709551616", 1]}"#, "The epoch of the position in 't.a' is not a string"),
        (#"{"t.a": ["1", 0]}"#, "The sequence of the position in 't.a' is not a number from 1"),
        (#"{"t.a": ["1", "1"]}"#, "The sequence of the position in 't.a' is not a number from 1"),
        (#"{"t.a": ["1", 1.5]}"#, "The sequence of the position in 't.a' is not a number from 1"),
        (#"{"t.a": ["1", 01]}"#, "The sequence of the position in 't.a' is not a number from 1"),
        (#"{"t.a": ["1", 18446744073709551616]}"#, "The sequence of the position in 't.a' is not a number from 1"),
        (#"{"t.a": ["+1", 1]}"#, "The epoch of the position in 't.a' is not a string"),
        (#"{"t.a": ["1", 1], "t.a": ["1", 1]}"#, "There are two positions in 't.a'; give only one."),
        (#"{"t.a": ["1", 1], "t.\u0061": ["1", 1]}"#, "There are two positions in 't.a'; give only one."),
        (#"{"t.ä": ["1", 1]}"#, "The topic 't.ä' has"), (#"{"t..a": ["1", 1]}"#, "The topic 't..a' has"),
        (#"{"t.*": ["1", 1]}"#, "The topic 't.*' contains '*' or '>'"), (#"{"": ["1", 1]}"#, "The topic name is empty"),
        (#"{"u.a": ["1", 1]}"#, "The topic 'u.a' of a position does not match 't.*'; leave it out."),
        (#"{"t.a": ["1", 1], "t.b": ["1", 1], "t.c": ["1", 1], "t.d": ["1", 1]}"#, "in more than 3 topics"),
    ]

    @Test(arguments: faults) func wrongPositionsAreInvalid(_ data: String, _ reason: String) {
        let broker = broker(1) { $0.matches = 3 }
        let subscriber = broker.connect()
        subscriber.subscribe("t.*", data: data)
        let received = subscriber.received()
        #expect(received.count == 1 && received[0].hasPrefix("1:! 204 invalid:") && received[0].contains(reason))
        let peer = TestGRPC(broker)
        let stream = peer.listen("t.*", posting: data)
        #expect(peer[stream].heads.first?[":status"] == "400" && peer[stream].text.contains("/problems/invalid"))
        #expect(broker.quotas.patterns.value == 0 && broker.quotas.subscriptions.value == 0)
    }

    @Test func wrongPositionsOfACallAreInvalid() {
        let broker = broker(1) { $0.matches = 2 }
        let peer = TestGRPC(broker)
        for (topic, positions, reason) in [
            ("t.*", [("t.a", UInt64(0), UInt64(1))], "lacks its topic, epoch or sequence"),
            ("t.*", [("t.a", 1, 0)], "lacks its topic, epoch or sequence"),
            ("t.*", [("", 1, 1)], "lacks its topic, epoch or sequence"),
            ("t.*", [("t.a", 1, 1), ("t.a", 1, 1)], "two positions in 't.a'"),
            ("t.*", [("u", 1, 1)], "does not match 't.*'"), ("t.*", [("t.", 1, 1)], "The topic 't.' has"),
            ("t.*", [("t.a", 1, 1), ("t.b", 1, 1), ("t.c", 1, 1)], "in more than 2 topics"),
            ("t.a", [("t.a", 1, 1)], "Positions are for a pattern, and 't.a' is a single topic"),
        ] {
            let stream = peer.subscribe(topic, positions: positions)
            #expect(peer[stream].status == "3" && peer[stream].message?.contains(reason) == true, "\(reason)")
        }
    }

    /// A client resumes over and over: with retained messages it receives everything exactly once, in order.
    @Test(arguments: 0..<30) func nothingIsLostOrRepeated(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed) &* 0x9E37_79B9)
        let shards = 1 + random.next(3)
        let broker = broker(shards) { $0.topicIdle = 20 * Limits.second }
        let publishers = (0..<shards).map { broker.connect($0) }
        let subscribers = (0..<shards).map { broker.connect($0) }
        let names = (0..<6).map { "t.\($0)" }
        var places = TopicPlaces()
        var (at, stream) = (0, UInt32(11))
        subscribers[at].subscribe("t.*?replay=all", n: 4, stream: stream)
        for _ in 0..<200 {
            switch random.next(12) {
            case 0:
                subscribers[at].cancel(stream: stream)
                broker.runAll()
                #expect(places.take(subscribers[at]) == nil)
                (at, stream) = (random.next(shards), stream + 2)
                // Several subscriptions at a time must not disturb each other.
                subscribers[at].subscribe("t.*?replay=all", n: 4, data: places.json, stream: stream)
            case 1:
                // Only what is deleted while nothing waits is known to be received.
                subscribers[at].requestN(1000, stream: stream)
                broker.runAll()
                publishers[0].publish("$SYS.topic.delete?name=\(random.pick(names))", "", stream: stream + 1000)
            case 2: broker.advance(seconds: Double(1 + random.next(15)))
            case 3: broker.chaos = random.next(2) == 0 ? LedgerRandom(state: UInt64(random.next(1000))) : nil
            case 4, 5: subscribers[at].requestN(UInt32(1 + random.next(5)), stream: stream)
            default:
                let name = random.pick(names)
                for _ in 0...random.next(3) { publishers[random.next(shards)].fireAndForget(name, "m") }
            }
            #expect(places.take(subscribers[at]) == nil)
        }
        broker.chaos = nil
        broker.runAll()
        subscribers[at].requestN(0x7FFF_FFFF, stream: stream)
        broker.runAll()
        #expect(places.take(subscribers[at]) == nil && places.received > 0)
        expectNothingLeft(broker)
        for topic in broker.shards.flatMap(\.topics.all) where topic.name.hasPrefix("t.") {
            #expect(places.next[topic.epoch] ?? 1 == topic.log.end.value, "\(topic.name)")
        }
    }
}

/// What a client knows of each topic: the position of the next message.
private struct TopicPlaces {
    private var places: [String: (epoch: UInt64, sequence: UInt64)] = [:]
    /// By epoch.
    private(set) var next: [UInt64: UInt64] = [:]
    private(set) var received = 0

    var json: String {
        "{\(places.map { #""\#($0.key)":["\#($0.value.epoch)",\#($0.value.sequence)]"# }.joined(separator: ","))}"
    }

    /// Notes what a client has received. Returns what is wrong.
    mutating func take(_ client: TestClient) -> String? {
        var fault: String?
        client.takeFrames { frame in
            guard case .payload(true, _, let content)? = try? Frame.decode(frame.bytes).body,
                let metadata = content.metadata.map({ frame.slice($0) }),
                let name = TestClient.topic(metadata)
            else { return }
            let figures = MessageMetadata.entry - 32
            let epoch: UInt64 = metadata.bigEndian(at: figures)
            let sequence: UInt64 = metadata.bigEndian(at: figures + 8)
            if sequence != next[epoch] ?? 1 { fault = "\(name): \(sequence) instead of \(next[epoch] ?? 1)" }
            places[name] = (epoch, sequence + 1)
            next[epoch] = sequence + 1
            received += 1
        }
        return fault
    }
}
