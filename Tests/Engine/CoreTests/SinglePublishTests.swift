// Single publishes, whose routes are cached and which are answered at once if there is room: the result is the same as
// without the cache.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct SinglePublishTests {
    /// Responses to `count` publishes of one route.
    private func answers(_ client: TestClient, _ route: String, _ count: Int = 2) -> [String] {
        for index in 0..<count { client.publish(route, "x\(index)", stream: UInt32(2 * index + 101)) }
        return client.received().map { String($0.drop { $0 != ":" }.dropFirst()) }
    }

    /// The name of a topic that the last shard owns.
    private func name(_ broker: TestBroker) -> String {
        (0...).lazy.map { "t\($0)" }.first { broker.shards[0].owner(of: $0) == broker.shards.count - 1 }!
    }

    /// As many messages find room as if each had arrived separately: messages covered by credit do not stay in the
    /// buffers.
    @Test func fireAndForgetOfOneReadFindsTheRoomThatOthersLeave() {
        for (asked, buffer) in [(1, 1), (3, 3), (3, 1)] {
            let broker = TestBroker()
            let subscriber = broker.connect()
            subscriber.subscribe("t?overflow=block&buffer=\(buffer)", n: UInt32(asked))
            let publisher = broker.connect()
            let texts = (0..<10).map { "\($0)" }
            publisher.send { buffer in
                for text in texts {
                    Array("t".utf8).withUnsafeBytes { route in
                        Array(text.utf8).withUnsafeBytes {
                            FrameWriter.requestFNF(
                                stream: 9, metadata: route, data: $0, fragment: 1 << 20, into: &buffer)
                        }
                    }
                }
            }
            let topic = broker.shards[0].topics["t"]!
            #expect(topic.published == UInt64(asked + buffer) && topic.publishers.overshoot == 0)
            subscriber.requestN(10)
            #expect(subscriber.received() == texts.prefix(asked + buffer).map { "1:" + $0 })
        }
    }

    // Cached routes

    @Test(arguments: [1, 2])
    func aDeletedTopicIsNotFoundAgain(_ shards: Int) {
        let broker = TestBroker(shards: shards)
        let topic = name(broker)
        let client = broker.connect()
        #expect(answers(client, topic, 3) == ["1|", "2|", "3|"])
        let owner = broker.shards[shards - 1]
        let epoch = owner.topics[topic]!.epoch
        client.publish("$SYS.topic.delete?name=\(topic)", "", stream: 7)
        #expect(client.received().count == 1)
        #expect(owner.topics[topic] == nil)
        #expect(answers(client, topic, 2) == ["1|", "2|"])
        #expect(owner.topics[topic]!.epoch != epoch)
        // A fire-and-forget publish finds the new topic too.
        client.subscribe(topic)
        client.fireAndForget(topic, "fired")
        #expect(client.received() == ["1:fired"])
    }

    @Test func anIdleTopicIsNotFoundAgain() {
        var limits = Limits()
        limits.topicIdle = 2 * Limits.second
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        #expect(answers(client, "t") == ["1|", "2|"])
        weak let topic = broker.shards[0].topics["t"]
        #expect(topic != nil)
        broker.advance(seconds: 3)
        #expect(topic == nil, "what is remembered holds no topic")
        // The route's slot is another topic's now.
        #expect(answers(client, "other", 1) == ["1|"])
        #expect(answers(client, "t", 1) == ["1|"])
        #expect(answers(client, "other", 1) == ["2|"])
    }

    @Test func theTopicLimitCountsForWhatIsRemembered() {
        var limits = Limits()
        // One of the two is the broker's own topic of events.
        limits.topics = 2
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        let full = "! 202 limit: The broker has 2 topics, the maximum; delete some, or try again later."
        #expect(answers(client, "a") == ["1|", "2|"])
        #expect(answers(client, "b") == [full, full])
        let dropped = broker.shards[0].counters.fireAndForgetDropped
        client.fireAndForget("b", "x")
        client.fireAndForget("b", "x")
        #expect(broker.shards[0].counters.fireAndForgetDropped == dropped + 2)
        client.publish("$SYS.topic.delete?name=a", "", stream: 7)
        _ = client.received()
        #expect(answers(client, "b") == ["1|", "2|"])
    }

    @Test(arguments: ["text/plain", "message/x.rsocket.routing.v0", "message/x.rsocket.composite-metadata.v0"])
    func optionsAreSeenAfterARouteWithoutThem(_ form: String) throws {
        let broker = TestBroker()
        let client = broker.connect(metadata: form)
        func publish(_ tags: [String]) throws -> String {
            var route = ByteBuffer()
            switch form {
            case "text/plain": route.append(tags.joined(separator: "?"))
            case "message/x.rsocket.routing.v0":
                for tag in tags {
                    route.append(bigEndian: UInt8(tag.utf8.count))
                    route.append(tag)
                }
            default: try CompositeMetadata.appendRoute(tags, into: &route)
            }
            client.send {
                FrameWriter.requestResponse(
                    stream: 3, metadata: route.readable, data: route.readable, fragment: 0, into: &$0)
            }
            return client.received().first ?? "nothing"
        }
        let unknown =
            "3:! 204 invalid: The option 'x' is unknown; an acknowledged publish takes only publisher, number."
        for round in 0..<3 {
            #expect(try publish(["t"]) == "3:\(2 * round + 1)|")
            #expect(try publish(["t", "x=1"]) == unknown)
            #expect(try publish(["t?x=1"]) == unknown)
            // Without options again, and with an equivalent percent-encoded name.
            #expect(try publish(["%74"]) == "3:\(2 * round + 2)|")
        }
        #expect(broker.shards[0].topics["t"]?.published == 6)
    }

    @Test(arguments: [
        ("a*", "! 204 invalid: The topic 'a*' contains '*' or '>'"),
        ("a..b", "! 204 invalid: The topic 'a..b' has an empty token"),
        ("a?x", "! 204 invalid: The option 'x' has no value"), ("a%2", "! 204 invalid: 'a%2' has a '%'"),
        ("?x=1", "! 204 invalid: The option 'x' is unknown; "),
        ("%20", "! 204 invalid: The topic ' ' has a character"),
        (String(repeating: "a", count: 256), "! 204 invalid: The topic name has 256 bytes"),
        ("$SYS.events", "! 204 "), ("%24SYS.events", "! 204 "),
    ])
    func refusalsAreTheSameEachTime(_ route: String, _ text: String) {
        let broker = TestBroker()
        let client = broker.connect()
        let all = answers(client, route, 3)
        #expect(all.count == 3 && all.allSatisfy { $0 == all[0] && $0.hasPrefix(text) }, "\(all)")
        let counters = broker.shards[0].counters
        for _ in 0..<3 { client.fireAndForget(route, "x") }
        #expect(broker.shards[0].counters.fireAndForgetDropped == counters.fireAndForgetDropped + 3)
        #expect(client.received() == [])
        #expect(broker.shards[0].counters.streamErrors == counters.streamErrors)
    }

    @Test(arguments: [1, 2])
    func whatATopicRefusesIsToldAlike(_ shards: Int) {
        var limits = Limits()
        limits.retainBytes = 10_000
        let broker = TestBroker(shards: shards, limits: limits)
        let topic = name(broker)
        let client = broker.connect()
        #expect(answers(client, topic) == ["1|", "2|"])
        client.publish(topic, String(repeating: "x", count: 10_000), stream: 9)
        #expect(
            client.received() == [
                "9:! 202 too-large: The message takes 10064 bytes of the topic's log, which holds 10000; "
                    + "send a smaller one."
            ])
        client.publish("$SYS.topic.complete?name=\(topic)", "", stream: 7)
        _ = client.received()
        let completed = "! 202 ended: The topic '\(topic)' has completed; it takes no more messages."
        #expect(answers(client, topic) == [completed, completed])
        #expect(broker.shards[0].connections.at(0)?.rsocket.streamCount == 0)
        #expect(broker.shards[0].counters.streamErrors == 3)
        for shard in broker.shards { shard.drain(now: broker.now) }
        #expect(answers(client, topic, 1) == ["! 202 draining: The broker is shutting down; connect again later."])
    }

    @Test(arguments: [1, 2])
    func metadataIsCarriedOnTheRememberedWay(_ shards: Int) throws {
        let broker = TestBroker(shards: shards)
        let topic = name(broker)
        let subscriber = broker.connect()
        subscriber.subscribe("\(topic)?meta=on")
        let client = broker.connect(metadata: "message/x.rsocket.composite-metadata.v0")
        let ids: [UInt8?] = [nil, 1, nil, 2, 2, 3]
        for (index, id) in ids.enumerated() {
            var metadata = ByteBuffer()
            // The entry comes before or after the route.
            if let id, index.isMultiple(of: 2) { metadata.append([0xFA, 0, 0, 1, id]) }
            try CompositeMetadata.appendRoute([topic], into: &metadata)
            if let id, !index.isMultiple(of: 2) { metadata.append([0xFA, 0, 0, 1, id]) }
            client.send {
                let data = UnsafeRawBufferPointer(start: nil, count: 0)
                if index < 5 {
                    FrameWriter.requestResponse(
                        stream: 3, metadata: metadata.readable, data: data, fragment: 0, into: &$0)
                } else {
                    FrameWriter.requestFNF(
                        stream: 3, metadata: metadata.readable, data: data, fragment: 0, into: &$0)
                }
            }
        }
        #expect(client.received() == ["3:1|", "3:2|", "3:3|", "3:4|", "3:5|"])
        var carried: [[UInt8]] = []
        subscriber.takeFrames { frame in
            guard case .payload(_, _, let content)? = try? Frame.decode(frame.bytes).body,
                let metadata = content.metadata
            else { return }
            // After the broker's own entry.
            carried.append(Array(frame[metadata].dropFirst(MessageMetadata.entry)))
        }
        #expect(carried == ids.map { id in id.map { [0xFA, 0, 0, 1, $0] } ?? [] })
    }

    // Order

    /// There is room for two. Publishes that arrive while others wait are queued after them, whichever way they arrive.
    @Test(arguments: [(1, 0), (2, 0), (2, 1)])
    func noneOvertakesAParkedOne(_ shards: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let topic = name(broker)
        let subscriber = broker.connect()
        subscriber.subscribe("\(topic)?overflow=block&buffer=2", n: 1)
        let one = broker.connect(from)
        let two = broker.connect(shards - 1)
        one.publish(topic, "a", stream: 1)
        one.publish(topic, "b", stream: 3)
        two.publish(topic, "c", stream: 1)
        #expect(one.received() == ["1:1|", "3:2|"] && two.received() == ["1:3|"])
        one.publish(topic, "d", stream: 5)
        two.publish(topic, "e", stream: 3)
        one.publish(topic, "f", stream: 7)
        two.fireAndForget(topic, "lost", stream: 9)
        #expect(one.received() == [] && two.received() == [])
        #expect(broker.shards[from].find(one.id)?.input.parkedCount == 2)
        #expect(subscriber.received() == ["1:a"])
        // One more is delivered, so there is room for one more: the oldest that waits.
        subscriber.requestN(1)
        #expect(subscriber.received() == ["1:b"])
        #expect(one.received() == ["5:4|"] && two.received() == [])
        two.publish(topic, "g", stream: 5)
        #expect(two.received() == [])
        subscriber.requestN(100)
        #expect(subscriber.received() == ["1:c", "1:d", "1:e", "1:f", "1:g"])
        #expect(two.received() == ["3:5|", "5:7|"] && one.received() == ["7:6|"])
        two.publish(topic, "h", stream: 7)
        #expect(two.received() == ["7:8|"] && subscriber.received() == ["1:h"])
        #expect(broker.shards[shards - 1].counters.fireAndForgetDropped == 1)
        for client in [one, two] {
            let connection = broker.shards[client.shard].find(client.id)!
            #expect(
                connection.input.parkedCount == 0 && connection.input.parkedBytes == 0 && connection.streams.isEmpty)
            #expect(connection.rsocket.streamCount == 0)
        }
    }

    /// A connection whose parked publishes reach the limit is refused, even if its next publish is to another topic,
    /// which has room.
    @Test func theLimitOfParkedPublishesHoldsWhereThereIsRoom() {
        var limits = Limits()
        limits.parkedCount = 2
        let broker = TestBroker(limits: limits)
        let subscriber = broker.connect()
        subscriber.subscribe("full?overflow=block&buffer=1", n: 1)
        let client = broker.connect()
        for stream in [1, 3] as [UInt32] { client.publish("full", "x", stream: stream) }
        client.publish("free", "x", stream: 9)
        #expect(client.received() == ["1:1|", "3:2|", "9:1|"])
        for stream in [5, 7] as [UInt32] { client.publish("full", "x", stream: stream) }
        client.publish("free", "x", stream: 9)
        #expect(
            client.received() == [
                "9:! 202 limit: The connection already has 2 publishes waiting for acknowledgements; "
                    + "wait for some before sending more."
            ])
        client.cancel(stream: 5)
        client.publish("free", "x", stream: 9)
        #expect(client.received() == ["9:2|"])
    }
}

@Suite struct PublishTargetsTests {
    private func withTags<R>(_ route: String, _ body: (RouteTags) throws -> R) throws -> R {
        try Array(route.utf8).withUnsafeBytes { try body(RouteTags($0, form: .plain)) }
    }

    private func find(_ route: String, _ targets: PublishTargets) throws -> String? {
        try withTags(route) { targets.find($0)?.name }
    }

    private func insert(_ route: String, _ targets: inout PublishTargets) throws {
        try withTags(route) { targets.insert(PublishTarget(name: route, owner: 0), for: $0) }
    }

    @Test func routesAreFoundByAllTheirBytes() throws {
        var targets = PublishTargets()
        #expect(try find("a", targets) == nil)
        try insert("orders.eu", &targets)
        #expect(try find("orders.eu", targets) == "orders.eu")
        for other in ["orders.e", "orders.eu1", "orders.et", "orders.eu?", "Orders.eu"] {
            #expect(try find(other, targets) == nil)
        }
    }

    @Test func furtherTagsAreNotOverlooked() throws {
        var targets = PublishTargets()
        try insert("a", &targets)
        let bytes: [UInt8] = [1, 0x61, 3, 0x78, 0x3D, 0x31]
        try bytes.withUnsafeBytes {
            let tags = try RouteTags($0, form: .routing)
            #expect(targets.find(tags) == nil)
            targets.insert(PublishTarget(name: "wrong", owner: 0), for: tags)
        }
        #expect(try find("a", targets) == "a")
    }

    /// However many routes are used, the number kept is limited, and each finds its own entry or none.
    @Test func theTableDoesNotGrow() throws {
        var targets = PublishTargets()
        let routes = (0..<4 * PublishTargets.slots).map { "topic.\($0)" }
        for route in routes {
            try insert(route, &targets)
            #expect(try find(route, targets) == route)
        }
        let kept = try routes.filter { route in
            let found = try find(route, targets)
            #expect(found == nil || found == route)
            return found != nil
        }
        #expect(kept.count > PublishTargets.slots / 2 && kept.count <= PublishTargets.slots)
    }

    @Test func whatShareASlotTakeItFromEachOther() throws {
        var targets = PublishTargets()
        func slot(_ route: String) -> Int { Array(route.utf8).withUnsafeBytes { PublishTargets.slot(of: $0) } }
        let rival = (0...).lazy.map { "b\($0)" }.first { slot($0) == slot("a") }!
        try insert("a", &targets)
        try insert(rival, &targets)
        #expect(try find("a", targets) == nil)
        #expect(try find(rival, targets) == rival)
    }

    @Test func aRouteOfAnyLengthIsNotKept() throws {
        var targets = PublishTargets()
        let longest = String(repeating: "a", count: PublishTargets.longestRoute)
        try insert(longest, &targets)
        try insert(longest + "a", &targets)
        #expect(try find(longest, targets) == longest)
        #expect(try find(longest + "a", targets) == nil)
    }
}

@Suite struct DecimalTests {
    @Test(arguments: [0, 1, 9, 10, 99, 100, 12_345_678_901, UInt64.max / 10, UInt64.max])
    func numbersAreWrittenOut(_ value: UInt64) {
        #expect(Decimal.with(value) { String(decoding: $0, as: UTF8.self) } == String(value))
    }
}
