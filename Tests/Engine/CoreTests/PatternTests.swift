// PatternTests: subscriptions to patterns: which messages of which topics they receive, in which order, under one
// credit.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct PatternTests {
    private func broker(_ shards: Int, _ change: (inout Limits) -> Void = { _ in }) -> TestBroker {
        var limits = Limits()
        change(&limits)
        return TestBroker(shards: shards, limits: limits)
    }

    /// Topics may exist before the subscription or be created later; other topics are left out.
    @Test(arguments: DeliveryTests.placements)
    func aPatternReceivesAllTopicsThatMatch(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let publisher = broker.connect(from)
        for topic in ["orders.eu", "orders.us", "other.eu"] { publisher.fireAndForget(topic, "before") }
        let subscriber = broker.connect(at)
        subscriber.subscribe("orders.*", n: 100)
        for topic in ["orders.eu", "orders.us", "other.eu", "orders.asia", "orders.eu.fr", "orders"] {
            publisher.fireAndForget(topic, "x")
        }
        publisher.fireAndForget("orders.eu", "y")
        #expect(
            subscriber.received().sorted() == [
                "1:[1]orders.asia:x", "1:[2]orders.eu:x", "1:[2]orders.us:x", "1:[3]orders.eu:y",
            ])
    }

    @Test(arguments: DeliveryTests.placements)
    func replayCountsForEachTopic(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let publisher = broker.connect(from)
        for text in ["1", "2", "3"] { for topic in ["a.1", "a.2"] { publisher.fireAndForget(topic, text) } }
        let subscriber = broker.connect(at)
        subscriber.subscribe("a.*?replay=2", stream: 1)
        subscriber.subscribe("a.>?replay=all", stream: 3)
        subscriber.subscribe("*.1?replay=0", stream: 5)
        // A topic that is created later is replayed from its start.
        for text in ["1", "2", "3", "4"] { publisher.fireAndForget("a.3", text) }
        let received = subscriber.received().sorted()
        let expected =
            ["a.1", "a.2"].flatMap { topic in [2, 3].map { "1:[\($0)]\(topic):\($0)" } }
            + ["a.1", "a.2"].flatMap { topic in [1, 2, 3].map { "3:[\($0)]\(topic):\($0)" } }
            + [1, 3].flatMap { stream in [1, 2, 3, 4].map { "\(stream):[\($0)]a.3:\($0)" } }
        #expect(received == expected.sorted())
    }

    /// One credit serves all topics. Those with messages take turns.
    @Test(arguments: DeliveryTests.placements)
    func topicsTakeTurnsUnderOneCredit(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let publisher = broker.connect(from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*", n: 1)
        for text in 1...4 { publisher.fireAndForget("t.busy", "\(text)") }
        publisher.fireAndForget("t.quiet", "1")
        #expect(subscriber.received() == ["1:[1]t.busy:1"])
        subscriber.requestN(2)
        #expect(subscriber.received() == ["1:[2]t.busy:2", "1:[1]t.quiet:1"])
        subscriber.requestN(10)
        #expect(subscriber.received() == ["1:[3]t.busy:3", "1:[4]t.busy:4"])
    }

    /// The end of a topic does not end the subscription, which also receives a topic that has the same name later.
    @Test(arguments: DeliveryTests.placements)
    func topicsMayEndAndComeBack(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let publisher = broker.connect(from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*", n: 2)
        for text in 1...3 { publisher.fireAndForget("t.a", "\(text)") }
        publisher.publish("$SYS.topic.delete?name=t.a", "", stream: 3)
        publisher.fireAndForget("t.a", "new")
        publisher.fireAndForget("t.b", "1")
        publisher.publish("$SYS.topic.complete?name=t.b", "", stream: 5)
        subscriber.requestN(100)
        publisher.publish("$SYS.topic.delete?name=t.b", "", stream: 7)
        publisher.fireAndForget("t.b", "new")
        let received = subscriber.received()
        #expect(
            received.sorted() == [
                "1:[1]t.a:1", "1:[1]t.a:new", "1:[1]t.b:1", "1:[1]t.b:new", "1:[2]t.a:2", "1:[3]t.a:3",
            ])
        #expect(received.first == "1:[1]t.a:1" && received.firstIndex(of: "1:[3]t.a:3")! < received.count)
    }

    /// A topic without news has no cursor, and its messages are found all the same.
    @Test(arguments: DeliveryTests.placements)
    func quietTopicsNeedNoCursors(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = broker(shards)
        let publisher = broker.connect(from)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t.*", n: 100)
        for round in 1...3 {
            for topic in 1...10 { publisher.fireAndForget("t.\(topic)", "\(round)") }
            let received = subscriber.received()
            #expect(received.count == 10)
            #expect(received.contains("1:[\(round)]t.4:\(round)"))
            broker.advance(seconds: 20)
            #expect(broker.shards[at].views.count == 0)
        }
        // They do not keep topics in use either.
        broker.advance(seconds: 400)
        #expect(broker.shards.allSatisfy { $0.topics["t.4"] == nil })
        publisher.fireAndForget("t.4", "again")
        #expect(subscriber.received().last == "1:[1]t.4:again")
    }

    @Test func anEndedSubscriptionLeavesNothing() {
        func used(_ subscribes: Bool) -> Int {
            let broker = broker(2)
            let publisher = broker.connect(0)
            let subscriber = broker.connect(1)
            if subscribes { subscriber.subscribe("t.*", n: 1) }
            for topic in 1...300 { publisher.fireAndForget("t.\(topic)", "x") }
            if subscribes { #expect(broker.shards[1].views.count == 600) }
            subscriber.cancel()
            broker.advance(seconds: 1)
            #expect(broker.shards[1].views.count == 0)
            #expect(broker.quotas.patterns.value == 0)
            return broker.memory.used
        }
        // Without a difference as large as the cursors; the rest is free blocks.
        #expect(used(true) - used(false) < 300 * PatternSubscribing.cursorMemory / 4)
    }

    /// Many topics, subscriptions and shards at random. In each topic, each subscription receives all messages from
    /// where it began, in order, except those reported as dropped.
    @Test(arguments: 0..<40) func nothingIsLostUnreported(_ seed: Int) {
        var random = LedgerRandom(state: UInt64(seed) &* 0x9E37_79B9)
        let shards = 1 + random.next(3)
        let broker = broker(shards) {
            $0.retain = random.pick([0, 3, 100])
            $0.topicIdle = 10 * Limits.second
        }
        for shard in broker.shards {
            shard.parts.requests.followers.links.most = 1 + random.next(3)
            shard.parts.requests.patterns.requests.most = 1 + random.next(3)
        }
        let publishers = (0..<shards).map { broker.connect($0) }
        let subscribers = (0..<shards).map { broker.connect($0) }
        let names = ["a", "b"].flatMap { one in ["x", "y", "z"].map { "\(one).\($0)" } } + ["a.x.p", "b"]
        var model = PatternModel()
        for _ in 0..<300 {
            switch random.next(20) {
            case 0:
                broker.runAll()
                let pattern = random.pick(["a.*", "*.x", ">", "a.>", "*"])
                let options = random.pick(["", "?replay=all", "?replay=2", "?buffer=2"])
                let at = random.next(shards)
                let stream = model.subscribe(pattern, options, at, broker.shards)
                subscribers[at].subscribe(pattern + options, n: UInt32(1 + random.next(3)), stream: stream)
                broker.runAll()
            case 1:
                guard let (at, stream) = model.removeAny(&random) else { break }
                subscribers[at].cancel(stream: stream)
                broker.runAll()
                _ = model.take(subscribers[at], at)
            case 2:
                broker.runAll()
                let name = names[random.next(names.count)]
                publishers[0].publish("$SYS.topic.delete?name=\(name)", "", stream: model.nextStream())
                broker.runAll()
            case 3: broker.advance(seconds: Double(1 + random.next(12)))
            case 4: broker.chaos = random.next(2) == 0 ? LedgerRandom(state: UInt64(random.next(1000))) : nil
            case 5, 6, 7, 8:
                guard let (at, stream) = model.any(&random) else { break }
                subscribers[at].requestN(UInt32(1 + random.next(5)), stream: stream)
            default:
                let name = names[random.next(names.count)]
                for _ in 0...random.next(4) { publishers[random.next(shards)].fireAndForget(name, "m") }
            }
            for at in 0..<shards { #expect(model.take(subscribers[at], at) == nil) }
            for shard in broker.shards { expectSums(of: shard) }
        }
        broker.chaos = nil
        broker.runAll()
        for (at, stream) in model.all { subscribers[at].requestN(0x7FFF_FFFF, stream: stream) }
        broker.runAll()
        for at in 0..<shards { #expect(model.take(subscribers[at], at) == nil) }
        #expect(model.received > 0)
        // Nothing is left over: each has what its topics have.
        for shard in broker.shards { for topic in shard.topics.all { #expect(model.misses(topic) == nil) } }
    }

    /// The sums that are kept as cursors change are those of the cursors.
    private func expectSums(of shard: Shard) {
        var cursors = 0
        for stream in (0..<shard.streams.bound).compactMap({ shard.streams.at($0) }) where stream.kind == .pattern {
            let subscription = stream.asPattern
            let waiting = subscription.cursors.values.reduce(0) { $0 + ($1.known { $0.waiting } ?? 0) }
            let dropped = subscription.cursors.values.reduce(0) { $0 &+ ($1.known { $0.droppedSinceDelivery } ?? 0) }
            #expect(subscription.sums.waiting == waiting && (subscription.sums.behindSince != nil) == (waiting > 0))
            #expect(subscription.sums.droppedSinceDelivery >= dropped)
            #expect(subscription.sums.formsAwaited == subscription.cursors.values.count { $0.awaitsForm })
            cursors += subscription.cursors.count
        }
        #expect(shard.currentCounters().cursors >= cursors)
    }

    @Test(arguments: [
        ("t.*?overflow=block", "overflow=block is not allowed for a pattern"),
        ("t.*?from=3", "from is not allowed for a pattern"),
        ("t.*?opening=on", "opening=on is not allowed"),
        ("t.>.x", "'t.>.x' is not a topic pattern: '>' is not the last token"),
        ("t*", "whole tokens"),
    ])
    func whatAPatternCannotBeIsInvalid(_ route: String, _ reason: String) {
        let subscriber = broker(1).connect()
        subscriber.subscribe(route)
        let received = subscriber.received()
        #expect(received.count == 1 && received[0].hasPrefix("1:! 204 invalid:") && received[0].contains(reason))
    }

    @Test func moreTopicsThanASubscriptionMayHaveAreRefused() {
        let broker = broker(2) { $0.matches = 3 }
        let publisher = broker.connect(0)
        for topic in 1...4 { publisher.fireAndForget("t.\(topic)", "x") }
        let subscriber = broker.connect(1)
        subscriber.subscribe("t.*")
        let received = subscriber.received()
        #expect(received.count == 1)
        let text =
            "More than 3 topics match 't.*', the maximum of one subscription (max-matches); use a narrower pattern, "
            + "or raise the limit."
        #expect(received[0].contains(text))
    }

    /// The first topics are visited at once, the others in later turns.
    @Test func noTopicsAreSearchedForASubscriptionThatHasEnded() {
        let broker = broker(1)
        let publisher = broker.connect()
        for topic in 1...600 { publisher.fireAndForget("t.\(topic)", "x") }
        broker.chaos = LedgerRandom(state: 0)
        let shard = broker.shards[0]
        publisher.subscribe("t.*", stream: 11)
        broker.runAll()
        let handle = shard.parts.tables.streams.at(0)!.handle
        let request = PatternRequest(
            pattern: try! TopicPattern(parsing: "t.*"), subscription: StreamKey(shard: 0, handle: handle),
            connection: ConnectionID(index: 0, generation: 0), wantsHistory: false)
        shard.parts.requests.followers.match(request, now: broker.now)
        #expect(shard.hasWork)
        broker.runAll()
        publisher.cancel(stream: 11)
        broker.runAll()
        shard.parts.requests.followers.match(request, now: broker.now)
        #expect(!shard.hasWork)
    }

    @Test func differentPatternsAreLimited() {
        let broker = broker(1) { $0.patterns = 2 }
        let subscriber = broker.connect()
        for (stream, pattern) in [(1, "a.*"), (3, "b.*"), (5, "a.*"), (7, "c.*")] {
            subscriber.subscribe(pattern, stream: UInt32(stream))
        }
        let received = subscriber.received()
        #expect(
            received.count == 1 && received[0].hasPrefix("7:!") && received[0].contains("as they may, 2 (max-patterns"))
        for stream in [1, 5] { subscriber.cancel(stream: UInt32(stream)) }
        subscriber.subscribe("c.*", stream: 9)
        #expect(subscriber.received() == [])
    }
}

/// What each subscription has received of each topic.
private struct PatternModel {
    private struct Key: Hashable {
        var at: Int
        var stream: UInt32
    }

    private var subscriptions: [Key: (pattern: TopicPattern, options: String)] = [:]
    /// The next sequence by subscription and epoch.
    private var next: [Key: [UInt64: UInt64]] = [:]
    private var lastStream: UInt32 = 1
    private(set) var received = 0

    mutating func nextStream() -> UInt32 {
        lastStream += 2
        return lastStream
    }

    mutating func subscribe(_ pattern: String, _ options: String, _ at: Int, _ shards: [Shard]) -> UInt32 {
        let stream = nextStream()
        let key = Key(at: at, stream: stream)
        subscriptions[key] = (try! TopicPattern(parsing: pattern), options)
        for shard in shards {
            for topic in shard.topics.all {
                next[key, default: [:]][topic.epoch] = PatternModel.first(
                    of: topic, options, shard.topics.hasName(topic))
            }
        }
        return stream
    }

    /// The first message that a subscription receives.
    private static func first(of topic: Topic, _ options: String, _ isNamed: Bool) -> UInt64 {
        let end = topic.committed.value
        return switch options {
        case "?replay=all" where isNamed: topic.retained.value
        case "?replay=2" where isNamed: max(end - min(end, 2), topic.retained.value)
        default: end
        }
    }

    var all: [(at: Int, stream: UInt32)] { subscriptions.keys.map { ($0.at, $0.stream) } }

    func any(_ random: inout LedgerRandom) -> (at: Int, stream: UInt32)? {
        let all = all.sorted { $0 < $1 }
        return all.isEmpty ? nil : all[random.next(all.count)]
    }

    mutating func removeAny(_ random: inout LedgerRandom) -> (at: Int, stream: UInt32)? {
        guard let one = any(&random) else { return nil }
        subscriptions[Key(at: one.at, stream: one.stream)] = nil
        return one
    }

    /// Notes what a client has received. Returns what is wrong.
    mutating func take(_ client: TestClient, _ at: Int) -> String? {
        var fault: String?
        client.takeFrames { frame in
            guard case .payload(true, _, let content)? = try? Frame.decode(frame.bytes).body,
                let metadata = content.metadata.map({ frame.slice($0) })
            else { return }
            fault = take(metadata, frame, at) ?? fault
        }
        return fault
    }

    private mutating func take(_ metadata: UnsafeRawBufferPointer, _ frame: UnsafeRawBufferPointer, _ at: Int)
        -> String?
    {
        let line = TestClient.describe(frame)
        let parts = line.split(separator: ":")
        let key = Key(at: at, stream: UInt32(parts[0])!)
        guard let subscription = subscriptions[key] else { return nil }
        guard parts.count == 3, let end = parts[1].firstIndex(of: "]") else { return line }
        let name = String(parts[1][parts[1].index(after: end)...])
        guard subscription.pattern.matches(name) else { return "\(subscription.pattern): \(line)" }
        let figures = MessageMetadata.entry - 32
        let epoch: UInt64 = metadata.bigEndian(at: figures)
        let sequence: UInt64 = metadata.bigEndian(at: figures + 8)
        let dropped: UInt64 = metadata.bigEndian(at: figures + 24)
        // A topic that is created later is received from its start.
        let expected = next[key]?[epoch] ?? 1
        if sequence != expected + dropped {
            return "\(subscription) expected \(expected): \(line)"
        }
        next[key, default: [:]][epoch] = sequence + 1
        received += 1
        return nil
    }

    /// A subscription that has not received all of a topic.
    func misses(_ topic: Topic) -> String? {
        for key in subscriptions.keys {
            let topics = next[key] ?? [:]
            guard subscriptions[key]!.pattern.matches(topic.name) else { continue }
            let next = topics[topic.epoch] ?? 1
            if next != topic.log.end.value {
                return "\(key) \(subscriptions[key]!) \(topic.name): next \(next), end \(topic.log.end)"
            }
        }
        return nil
    }
}
