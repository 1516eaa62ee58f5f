// Holes in a topic's log: sequences without a message, as subscriptions see them, on every protocol and across shards.

import Replay
import Testing

@testable import Core

@Suite struct HolesTests {
    static let placements = [(1, 0, 0), (2, 0, 0), (2, 0, 1), (2, 1, 0), (3, 1, 2)]

    /// A topic "t" whose log gets messages and holes.
    private struct HoledTopic {
        let broker: TestBroker
        let publisher: TestClient

        init(_ shards: Int = 1, from: Int = 0, limits: Limits = Limits()) {
            broker = TestBroker(shards: shards, limits: limits)
            publisher = broker.connect(from)
        }

        var topic: Topic { broker.shards.lazy.compactMap { $0.topics["t"] }.first! }

        func publish(_ texts: String...) { for text in texts { publisher.fireAndForget("t", text) } }
        func skip(_ count: Int) { topic.skip(to: topic.log.next.advanced(by: count), isLost: false) }
        func lose(_ count: Int) { topic.skip(to: topic.log.next.advanced(by: count), isLost: true) }
        func complete() { publisher.publish("$SYS.topic.complete?name=t", "") }

        /// a, two skipped, b, three lost, c, one skipped and two lost and one skipped, d.
        func fill() {
            publish("a")
            skip(2)
            publish("b")
            lose(3)
            publish("c")
            skip(1)
            lose(2)
            skip(1)
            publish("d")
        }
    }

    @Test(arguments: placements)
    func creditIsSpentOnMessagesAlone(_ shards: Int, _ at: Int, _ from: Int) {
        let holed = HoledTopic(shards, from: from)
        let subscriber = holed.broker.connect(at)
        subscriber.subscribe("t?meta=on", n: 3)
        holed.fill()
        #expect(subscriber.received() == ["1:[1]a", "1:[4]b", "1:[8-3]c"])
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:[13-2]d"])
        holed.skip(1)
        holed.publish("e")
        #expect(subscriber.received() == [])
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:[15]e"])
    }

    /// The end of the log moves beyond a hole only with the next message.
    @Test(arguments: placements, ["overflow=latest", "overflow=drop-oldest&buffer=1"])
    func aHoleAloneReplacesNoMessage(_ placement: (Int, Int, Int), _ options: String) {
        let holed = HoledTopic(placement.0, from: placement.2)
        let subscriber = holed.broker.connect(placement.1)
        subscriber.subscribe("t?meta=on&\(options)", n: 1)
        holed.publish("a", "b")
        holed.skip(5)
        holed.lose(5)
        holed.broker.advance(seconds: 1)
        #expect(holed.topic.log.end == SequenceNumber(3))
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:[1]a", "1:[2]b"])
        // Nothing waits, so the holes are passed at once, and take no room in the buffer.
        holed.publish("c")
        holed.skip(1)
        #expect(subscriber.received() == [])
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:[13-5]c"])
        holed.publish("d")
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:[15]d"])
    }

    @Test(arguments: placements)
    func aHoleBehindWaitingMessagesIsPassedInItsTurn(_ shards: Int, _ at: Int, _ from: Int) {
        let holed = HoledTopic(shards, from: from)
        let subscriber = holed.broker.connect(at)
        // Together the messages and the holes fill the buffer.
        subscriber.subscribe("t?meta=on&overflow=fail&buffer=5", n: 1)
        holed.publish("a", "b")
        holed.skip(2)
        holed.publish("c")
        #expect(subscriber.received() == ["1:[1]a"])
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:[2]b"])
        holed.publish("d", "e", "f", "g")
        subscriber.requestN(9)
        #expect(subscriber.received() == ["1:[5]c", "1:[6]d", "1:[7]e", "1:[8]f", "1:[9]g"])
    }

    /// A policy that drops the messages in front of a hole leaves the subscription behind the hole.
    @Test(arguments: placements)
    func theNextMessageIsNeverAHole(_ shards: Int, _ at: Int, _ from: Int) {
        let holed = HoledTopic(shards, from: from)
        let subscriber = holed.broker.connect(at)
        subscriber.subscribe("t?meta=on&overflow=drop-oldest&buffer=4", n: 1)
        holed.publish("a", "b")
        holed.skip(2)
        holed.publish("c", "d")
        let known = holed.broker.shards[at].views.attached.first { _ in true }!.members.first!
        #expect(known.cursor.cursor == SequenceNumber(5) && known.cursor.waiting == 2 && known.cursor.dropped == 1)
        subscriber.requestN(9)
        #expect(subscriber.received() == ["1:[1]a", "1:[5-1]c", "1:[6]d"])
    }

    @Test(arguments: placements)
    func aReplayCountsMessages(_ shards: Int, _ at: Int, _ from: Int) {
        let holed = HoledTopic(shards, from: from)
        holed.fill()
        let all = ["[1]a", "[4]b", "[8-3]c", "[13-2]d"]
        for (replay, expected) in [
            ("1", ["[13]d"]), ("2", ["[8]c", "[13-2]d"]), ("3", ["[4]b", "[8-3]c", "[13-2]d"]), ("4", all),
            ("5", all), ("all", all),
        ] {
            let subscriber = holed.broker.connect(at)
            subscriber.subscribe("t?meta=on&replay=\(replay)")
            #expect(subscriber.received() == expected.map { "1:" + $0 }, "replay=\(replay)")
        }
        let latest = holed.broker.connect(at)
        latest.subscribe("t?meta=on&replay=all&overflow=latest")
        #expect(latest.received() == ["1:[13]d"])
    }

    @Test(arguments: placements)
    func aPositionInAHoleIsTheOneAfterIt(_ shards: Int, _ at: Int, _ from: Int) {
        let holed = HoledTopic(shards, from: from)
        holed.fill()
        // The first message, and whether there is a gap before it.
        for (position, first, isGap) in [
            (1, "[1]a", false), (2, "[4]b", false), (3, "[4]b", false), (5, "[8-3]c", true), (6, "[8-2]c", true),
            (7, "[8-1]c", true), (8, "[8]c", false), (9, "[13-2]d", true), (10, "[13-2]d", true),
            (11, "[13-1]d", true), (12, "[13]d", false),
        ] {
            let subscriber = holed.broker.connect(at)
            subscriber.subscribe("t?meta=on&from=\(position)", n: 1)
            #expect(subscriber.received() == ["1:" + first], "from=\(position)")
            let strict = holed.broker.connect(at)
            strict.subscribe("t?meta=on&from=\(position)&gap=fail&overflow=fail", n: 1)
            let answer = strict.received()
            #expect(answer.first?.hasPrefix(isGap ? "1:! 202 gap: " : "1:" + first) == true, "\(answer)")
        }
    }

    @Test(arguments: placements)
    func aLossEndsASubscriptionThatFails(_ shards: Int, _ at: Int, _ from: Int) {
        let holed = HoledTopic(shards, from: from)
        let subscriber = holed.broker.connect(at)
        subscriber.subscribe("t?meta=on&overflow=fail", n: 9)
        holed.publish("a")
        holed.skip(3)
        holed.publish("b")
        #expect(subscriber.received() == ["1:[1]a", "1:[5]b"])
        holed.lose(2)
        holed.publish("c")
        let text = "1:! 201 overflow: lost: the topic lost messages before they could be delivered"
        #expect(subscriber.received() == ["1:[8-2]c", text])
    }

    @Test(arguments: placements)
    func theEndComesBehindAHole(_ shards: Int, _ at: Int, _ from: Int) {
        for isLost in [false, true] {
            let holed = HoledTopic(shards, from: from)
            let subscriber = holed.broker.connect(at)
            subscriber.subscribe("t?meta=on&overflow=latest", n: 1)
            let failing = holed.broker.connect(at)
            failing.subscribe("t?meta=on&overflow=fail", n: 9)
            holed.publish("a", "b")
            if isLost { holed.lose(2) } else { holed.skip(2) }
            holed.complete()
            #expect(subscriber.received() == ["1:[1]a"])
            subscriber.requestN(1)
            let end = isLost ? ["1:[2]b", "1:[2-2]|"] : ["1:[2]b", "1:|"]
            #expect(subscriber.received() == end)
            #expect(failing.received().last?.hasPrefix(isLost ? "1:! 201 overflow: lost: " : "1:|") == true)
            // Later, only a client that resumes has missed them.
            subscriber.subscribe("t?meta=on&from=3", stream: 3)
            #expect(subscriber.received() == [isLost ? "3:[2-2]|" : "3:|"])
            subscriber.subscribe("t?meta=on&replay=1", stream: 5)
            #expect(subscriber.received() == ["5:[2]b", "5:|"])
        }
    }

    @Test(arguments: [0, 1])
    func overGRPCAndHTTPRangesEndAtHoles(_ shard: Int) {
        let holed = HoledTopic(2)
        let peer = TestGRPC(holed.broker, shard)
        let live = [
            peer.subscribe("t", n: 3), peer.listen("t", options: "&request=3"),
            peer.listen("t", accept: "text/event-stream", options: "&request=3"),
        ]
        peer.read()
        holed.fill()
        peer.read()
        let replayed = [
            peer.subscribe("t", n: 3, all: true), peer.listen("t", all: true, options: "&request=3"),
            peer.listen("t", all: true, accept: "text/event-stream", options: "&request=3"),
        ]
        for streams in [live, replayed] {
            let responses = peer[streams[0]].responses()
            #expect(responses.flatMap { $0.messages.map(\.sequence) } == [1, 4, 8])
            #expect(responses.filter { !$0.messages.isEmpty }.map(\.dropped) == [0, 0, 3])
            #expect(responses.last?.outstanding == 0)
            let lines = peer[streams[1]].text.split(separator: "\n")
            let sequences = lines.filter { $0.hasPrefix("{\"sequence\":") }.map { $0.dropFirst(12).prefix(1) }
            #expect(sequences == ["1", "4", "8"])
            #expect(lines.filter { $0.contains("\"dropped\":") }.count == 1)
            let events = peer[streams[2]].text.split(separator: "\n")
            let ids = events.filter { $0.hasPrefix("id: ") }.compactMap { $0.split(separator: "-").last }
            #expect(ids == ["1", "4", "8"])
            #expect(events.filter { $0 == "event: gap" }.count == 1)
            peer.request(1, streams[0])
            let last = peer[streams[0]].responses()
            #expect(last.flatMap { $0.messages.map(\.sequence) } == [13] && last.map(\.dropped) == [2])
        }
    }

    @Test(arguments: [0, 1]) func theOpeningIsBehindAHole(_ shard: Int) {
        let holed = HoledTopic(2)
        holed.fill()
        let peer = TestGRPC(holed.broker, shard)
        for (position, next) in [(2, 4), (5, 8), (9, 13), (12, 13)] as [(UInt64, UInt64)] {
            let stream = peer.subscribe("t", n: 1, from: position, opening: true)
            #expect(peer[stream].responses().first?.next == next, "from \(position)")
        }
    }

    @Test(arguments: [0, 1]) func aTimeInAHoleIsThatOfTheNextMessage(_ shard: Int) {
        let holed = HoledTopic(2)
        for text in ["a", "b", "c"] {
            holed.publish(text)
            if text == "b" { holed.skip(2) } else { holed.lose(2) }
            holed.broker.now.wall += 1_000_000_000
        }
        for (seconds, expected) in [("1", "1:[7]c"), ("2", "1:[4]b"), ("3", "1:[1]a")] {
            let client = holed.broker.connect(shard)
            client.subscribe("t?meta=on&since=-\(seconds)s", n: 1)
            #expect(client.received() == [expected], "since=-\(seconds)s")
        }
    }

    /// Beyond the limit, the messages before the oldest hole are evicted, and lost for those that wait for them.
    @Test(arguments: [0, 1]) func thereAreOnlySoManyHoles(_ shard: Int) {
        let holed = HoledTopic(2)
        let client = holed.broker.connect(shard)
        client.subscribe("t?meta=on&buffer=10000", n: 1)
        let excess = 76
        for _ in 0..<Holes.most + excess {
            holed.publish("a")
            holed.skip(1)
        }
        holed.publish("b")
        #expect(holed.topic.log.holes.all.count == Holes.most)
        let first = 2 * excess + 1
        #expect(holed.topic.log.head == SequenceNumber(UInt64(first)))
        let view = holed.broker.shards[shard].views.attached.first { _ in true }!
        #expect(view.log.holes.all.count == Holes.most)
        client.requestN(1)
        #expect(client.received() == ["1:[1]a", "1:[\(first)-\(first - 3)]a"])
        client.requestN(0x7FFF_FFFF)
        let rest = client.received()
        #expect(rest.count == Holes.most && rest.allSatisfy { !$0.contains("-") })
    }

    /// Random messages, holes and credit: each subscription receives all messages, and learns of all losses.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func allMessagesAndLossesArrive(_ seed: UInt64) {
        var random = LedgerRandom(state: seed)
        let holed = HoledTopic(2, from: random.next(2))
        let clients = (0..<4).map { holed.broker.connect($0 % 2) }
        let peers = (0..<2).map { TestGRPC(holed.broker, $0) }
        for client in clients { client.subscribe("t?meta=on&buffer=100000", n: 1) }
        let streams = peers.map { $0.subscribe("t", n: 1, buffer: 100_000) }
        var expected: [UInt64] = []
        var lost: UInt64 = 0
        func publish(_ texts: [String], _ send: ([String]) -> Void) {
            let first = holed.topic.log.next.value
            expected += first..<first + UInt64(texts.count)
            send(texts)
        }
        holed.publisher.channel("t", "x")
        expected = [1]
        for _ in 0..<300 {
            switch random.next(6) {
            case 0: publish(["x", "x", "x"]) { holed.publisher.items($0) }
            case 1: publish(["x"]) { holed.publish($0[0]) }
            case 2: holed.skip(random.next(3))
            case 3:
                let count = random.next(3)
                holed.lose(count)
                lost += UInt64(count)
            case 4: clients[random.next(4)].requestN(UInt32(1 + random.next(4)))
            default: peers[random.next(2)].request(UInt32(1 + random.next(4)), streams[0])
            }
        }
        publish(["end"]) { holed.publish($0[0]) }
        for client in clients {
            client.requestN(0x7FFF_FFFF)
            let lines = client.received()
            let places = lines.map { $0.dropFirst(3).prefix { $0 != "]" }.split(separator: "-") }
            #expect(places.map { UInt64($0[0]) } == expected)
            #expect(places.reduce(0) { $0 + ($1.count > 1 ? UInt64($1[1])! : 0) } == lost)
        }
        for (peer, stream) in zip(peers, streams) {
            peer.request(0x7FFF_FFFF, stream)
            let responses = peer[stream].responses()
            #expect(responses.flatMap { $0.messages.map(\.sequence) } == expected)
            #expect(responses.reduce(0) { $0 + $1.dropped } == lost)
        }
    }
}
