// Queries of the admin listener to shards: figures of topics, connections and subscriptions, counters by reason, pages
// of lists, and ends by an operator.

import ForebayWire
import RSocket
import Replay
import Testing

@testable import Core

@Suite struct ShardQueryTests {
    private func survey(
        _ broker: TestBroker, _ table: Survey.Table, shard: Int = 0, most: Int = 100, order: Survey.Order = .rank,
        topics: Set<String> = []
    ) throws -> SurveyPart {
        let survey = Survey(table, most: most, order: order, topics: topics)
        guard case .survey(let part) = broker.ask(.survey(survey), shard: shard) else { throw Missing() }
        return part
    }

    private struct Missing: Error {}

    /// A message from a client takes a microsecond.
    private func isAbout(_ seconds: UInt64, _ nanoseconds: UInt64) -> Bool {
        (seconds * 1_000_000_000..<seconds * 1_000_000_000 + 1_000_000).contains(nanoseconds)
    }

    private func control(_ broker: TestBroker, _ call: ControlRequest, shard: Int = 0) -> ShardAnswer? {
        broker.ask(.control(call), shard: shard)
    }

    @Test func whoIsSlowComesFirstWithTheReason() throws {
        let broker = TestBroker()
        let slow = broker.connect()
        slow.subscribe("t?buffer=3", n: 2)
        let fast = broker.connect()
        fast.subscribe("t")
        let publisher = broker.connect()
        for number in 0..<10 { publisher.fireAndForget("t", "\(number)") }
        broker.now.monotonic += 3_000_000_000
        broker.now.wall += 3_000_000_000
        let part = try survey(broker, .subscriptions, topics: ["t"])
        #expect(part.subscriptions.count == 2)
        let first = try #require(part.subscriptions.first)
        #expect(first.outstanding == 0 && first.requested == 2 && first.delivered == 2)
        #expect(first.waiting == 3 && first.dropped == 5 && first.lag == 3 && first.next == 8)
        #expect(first.waitsFor == .credit && isAbout(3, first.behind) && first.age == 3_000_000_000)
        let second = part.subscriptions[1]
        #expect(second.outstanding == nil && second.delivered == 10 && second.waitsFor == .nothing)
        #expect(second.behind == 0 && second.lag == 0 && second.age == 0)
        let sums = try #require(part.byTopic["t"])
        #expect(sums.count == 2 && sums.waiting == 3 && sums.waitingForCredit == 1 && sums.waitingForSocket == 0)
        #expect(sums.unbounded == 1 && sums.outstanding == 0 && sums.lag == 3 && isAbout(3, sums.behind))
        #expect(part.counters.dropped[.dropOldest] == 5 && part.counters.dropped.total == 5)
        #expect(part.next == nil)

        // With credit the subscription is no longer behind, and its losses stay counted when it leaves.
        slow.requestN(100)
        let later = try survey(broker, .subscriptions)
        #expect(later.subscriptions.allSatisfy { $0.behind == 0 && $0.waitsFor == .nothing })
        #expect(later.byTopic.isEmpty)
        slow.disconnect()
        #expect(try survey(broker, .subscriptions).counters.dropped[.dropOldest] == 5)
    }

    /// One row and one part of the sums for each subscription to a pattern, whatever the number of topics.
    @Test func aPatternIsListedWithTheSumsOfItsTopics() throws {
        var limits = Limits()
        limits.matches = 3
        let broker = TestBroker(limits: limits)
        let publisher = broker.connect()
        publisher.fireAndForget("t.1", "before")
        let slow = broker.connect()
        slow.subscribe("t.*?buffer=2", n: 1)
        broker.connect().subscribe("t.1")
        for number in 0..<4 { for topic in 1...3 { publisher.fireAndForget("t.\(topic)", "\(number)") } }
        // One topic more than the subscription may have.
        publisher.fireAndForget("t.4", "x")
        broker.now.monotonic += 3_000_000_000
        let part = try survey(broker, .subscriptions, topics: ["t.1"])
        #expect(part.subscriptionSums.count == 2 && part.subscriptionSums.slow == 1)
        #expect(part.subscriptionSums.waiting == 6 && part.subscriptionSums.waitingForCredit == 1)
        #expect(part.byTopic["t.1"]?.count == 1 && part.byTopic["t.1"]?.waiting == 0)
        let row = try #require(part.subscriptions.first)
        #expect(row.topic == "t.*" && row.waiting == 6 && row.delivered == 1 && row.dropped == 5)
        #expect(row.waitsFor == .credit && isAbout(3, row.behind) && row.outstanding == 0)
        let pattern = try #require(row.pattern)
        #expect(pattern.matched == 1 && pattern.cursors == 3 && pattern.skipped == 1)
        #expect(row.json.hasSuffix(#""meta":true,"matched":1,"cursors":3,"skipped":1}"#))
        #expect(part.counters.patternSubscriptions == 1 && part.counters.patterns == 1 && part.counters.cursors == 3)
        #expect(part.counters.subscriptions == 2 && part.counters.limits[.matches] == 1)
        var search = Survey(.subscriptions, most: 10, order: .waiting)
        search.find = Needle("T.*")
        search.pairs = 5
        guard case .survey(let found) = broker.ask(.survey(search), shard: 0) else { throw Missing() }
        #expect(found.found == 1 && found.subscriptions.map(\.topic) == ["t.*"])
        #expect(found.pairs.map(\.topic) == ["t.*"] && found.pairs[0].policy == .dropOldest)

        slow.requestN(100)
        let later = try survey(broker, .subscriptions)
        #expect(later.subscriptions.allSatisfy { $0.waiting == 0 && $0.behind == 0 && $0.waitsFor == .nothing })
        broker.advance(seconds: 20)
        #expect(try survey(broker, .subscriptions).counters.cursors == 0)
        slow.disconnect()
        let end = try survey(broker, .subscriptions).counters
        #expect(end.patternSubscriptions == 0 && end.patterns == 0 && end.subscriptions == 1)
    }

    @Test func whoDoesNotReadWaitsForItsSocket() throws {
        var limits = Limits()
        limits.output = 1000
        let broker = TestBroker(limits: limits)
        let deaf = broker.connect()
        deaf.subscribe("t?buffer=2")
        deaf.window = 0
        let publisher = broker.connect()
        for _ in 0..<10 { publisher.fireAndForget("t", String(repeating: "x", count: 400)) }
        broker.now.monotonic += 1_000_000_000
        let part = try survey(broker, .subscriptions)
        let row = try #require(part.subscriptions.first)
        #expect(row.waitsFor == .socket && row.waiting == 2 && isAbout(1, row.behind))
        #expect(part.subscriptionSums.waitingForSocket == 1)
        #expect(try survey(broker, .connections).connections.output > 0)
    }

    @Test(
        arguments: [
            (Overflow.dropOldest, 3), (.dropNewest, 3), (.replaceNewest, 3), (.latest, 4),
        ] as [(Overflow, UInt64)])
    func dropsAreCountedByPolicy(policy: Overflow, lost: UInt64) throws {
        let broker = TestBroker()
        broker.connect().subscribe("t?buffer=2&overflow=\(policy.name)", n: 1)
        let publisher = broker.connect()
        for number in 0..<6 { publisher.fireAndForget("t", "\(number)") }
        let counters = try survey(broker, .topics).counters
        for other in Overflow.allCases { #expect(counters.dropped[other] == (other == policy ? lost : 0)) }
    }

    @Test func topicsTellTheirFiguresAcrossShards() throws {
        let broker = TestBroker(shards: 2)
        for shard in 0..<2 {
            let client = broker.connect(shard)
            client.subscribe("t")
            if shard == 1 { client.disconnect() }
        }
        let publisher = broker.connect()
        publisher.fireAndForget("t", "a")
        broker.connect(1).subscribe("t?replay=1")
        publisher.fireAndForget("t", "b")
        let owner = broker.shards[0].owner(of: "t")
        let part = try survey(broker, .topics, shard: owner)
        let topic = try #require(part.topics.first { $0.name == "t" })
        #expect(topic.published == 2 && topic.subscriptions == 2 && topic.delivered == 4 && topic.retained == 2)
        #expect(part.topicSums.count == part.topics.count && part.topicSums.memory >= topic.memory)
        #expect(topic.memory > 0 && topic.bytes == 2 * (Limits.messageOverhead + 1))
        let other = try survey(broker, .topics, shard: 1 - owner)
        #expect(!other.topics.contains { $0.name == "t" })
    }

    @Test func blockedPublishersAndTheirTimeAreCounted() throws {
        let broker = TestBroker()
        let slow = broker.connect()
        slow.subscribe("t?overflow=block&buffer=2", n: 1)
        let publisher = broker.connect()
        publisher.channel("t", "1")
        for number in 2...3 { publisher.items(["\(number)"]) }
        publisher.publish("t", "4", stream: 7)
        broker.advance(seconds: 2)
        var topic = try #require(try survey(broker, .topics).topics.first { $0.name == "t" })
        #expect(topic.blockedPublishers == 2 && topic.parked == 1 && topic.publishers == 1)
        #expect((1_900_000_000...2_100_000_000).contains(topic.blockedNow))
        #expect((1_700_000_000...2_100_000_000).contains(topic.blocked))
        #expect(try survey(broker, .topics).counters.blocked == topic.blocked)
        slow.requestN(1000)
        broker.advance(seconds: 1)
        let before = topic.blocked
        topic = try #require(try survey(broker, .topics).topics.first { $0.name == "t" })
        #expect(topic.blockedPublishers == 0 && topic.parked == 0 && topic.blockedNow == 0)
        #expect(topic.blocked >= before && topic.blocked < before + 400_000_000)
    }

    @Test func aSurveyGoesOnWhereItStopped() throws {
        let broker = TestBroker()
        let client = broker.connect()
        for number in 0..<Survey.places + 10 { client.fireAndForget("t\(number)", "x", stream: UInt32(2 * number + 1)) }
        var survey = Survey(.topics, most: 5, order: .age)
        var sums = TopicSums()
        var rows: [TopicStatistics] = []
        var parts = 0
        while true {
            guard case .survey(let part) = broker.ask(.survey(survey)) else {
                throw Missing()
            }
            parts += 1
            sums.add(part.topicSums)
            rows += part.topics
            guard let next = part.next else { break }
            #expect(next == survey.after + Survey.places)
            survey.after = next
        }
        #expect(parts == 2 && rows.count == 10)
        // `$SYS.events` comes first.
        #expect(sums.count == Survey.places + 11)
    }

    @Test func refusalsAndLimitsAreCountedByName() throws {
        var limits = Limits()
        limits.topics = 2
        limits.subscriptions = 1
        limits.connections = 3
        let broker = TestBroker(limits: limits)
        let client = broker.connect()
        client.subscribe("a b")
        client.subscribe("t", stream: 3)
        client.subscribe("t", stream: 5)
        client.publish("$SYS.stats", "x", stream: 7)
        client.publish("u", "x", stream: 9)
        client.publish("v", "x", stream: 11)
        _ = broker.connect()
        _ = broker.connect()
        #expect(broker.shards[0].open(peer: "127.0.0.1:9", wireProtocol: .rsocket, now: broker.now) == nil)
        let counters = try survey(broker, .topics).counters
        #expect(counters.refusals[.invalid] == 2)
        #expect(counters.limits[.subscriptions] == 1 && counters.limits[.topics] >= 1)
        #expect(counters.refusals[.limit] == 1 + counters.limits[.topics])
        #expect(counters.limits[.connections] == 1)
        #expect(counters.streamErrors == counters.refusals.total)
    }

    @Test func everyReasonAndLimitHasAPlaceAndANameOfItsOwn() {
        func check<Key: TallyKey>(_ keys: Key.Type) {
            let places = Key.allCases.map(\.place)
            #expect(Set(places).count == places.count && places.allSatisfy { (0..<Tally<Key>.capacity).contains($0) })
            let names = Key.allCases.map(\.name)
            #expect(Set(names).count == names.count)
            for name in names {
                #expect(name.utf8.allSatisfy { (97...122).contains($0) || $0 == 45 }, "\(name)")
            }
        }
        check(ErrorWord.self)
        check(LimitReached.self)
        check(Overflow.self)
    }

    @Test func anOperatorEndsASubscription() throws {
        let broker = TestBroker(shards: 2)
        let client = broker.connect(1)
        client.subscribe("t")
        _ = client.received()
        let id = try #require(try survey(broker, .subscriptions, shard: 1).subscriptions.first?.id)
        let call = try ControlRequest.closing(.subscriptions, id: String(id))
        #expect(call.home(among: 2) == 1 && !call.isReading)
        guard case .done(let json) = control(broker, call, shard: 1) else { throw Missing() }
        #expect(json.contains("\"id\":\(id),\"topic\":\"t\""))
        #expect(client.received().contains { $0.contains("An operator ended this subscription.") })
        #expect(!client.isClosed)
        guard case .refused(let problem) = control(broker, call, shard: 1) else { throw Missing() }
        #expect(problem.word == .notFound)
        #expect(try survey(broker, .subscriptions, shard: 1).counters.refusals[.closedByOperator] == 1)
    }

    @Test func anOperatorClosesAConnection() throws {
        let broker = TestBroker(shards: 2)
        let client = broker.connect(1)
        client.subscribe("t")
        _ = client.received()
        let call = try ControlRequest.closing(.connections, id: "1-0-1")
        #expect(call.home(among: 2) == 1)
        guard case .done(let json) = control(broker, call, shard: 1) else { throw Missing() }
        #expect(json.hasPrefix("{\"id\":\"1-0-1\""))
        #expect(client.received().contains { $0.contains("An operator closed this connection.") })
        #expect(client.isClosed)
        guard case .refused(let problem) = control(broker, call, shard: 1) else { throw Missing() }
        #expect(problem.word == .notFound)
        #expect(try survey(broker, .connections, shard: 1).connections.rsocket == 0)
    }

    @Test(arguments: [
        ("$SYS.connection.close", "needs an id"), ("$SYS.connection.close?id=1", "is not a connection id"),
        ("$SYS.connection.close?id=1-2", "is not a connection id"),
        ("$SYS.connection.close?id=9999999999-1-1", "is not a connection id"),
        ("$SYS.connection.close?id=7-1-1", "not-found: There is no connection 7-1-1"),
        ("$SYS.connection.close?id=0-77-1", "not-found: There is no connection 0-77-1"),
        ("$SYS.subscription.close?id=-1", "is not a subscription id"),
        ("$SYS.subscription.close?id=18446744073709551616", "is not a subscription id"),
        ("$SYS.subscription.close?id=18446744073709551615", "not-found: There is no subscription 18446744073709551615"),
        ("$SYS.subscription.close?id=1&name=x", "unknown"),
    ])
    func whatCannotBeClosedIsToldSo(route: String, words: String) {
        let broker = TestBroker(shards: 2)
        let client = broker.connect()
        client.publish(route, "")
        let received = client.received()
        #expect(received.contains { $0.contains(words) }, "\(received)")
    }

    @Test func aClientMayCloseAnotherAndItself() {
        let broker = TestBroker(shards: 2)
        let (client, other) = (broker.connect(), broker.connect(1))
        client.publish("$SYS.connection.close?id=1-0-1", "")
        #expect(other.isClosed && client.received().contains { $0.contains("\"id\":\"1-0-1\"") })
        client.publish("$SYS.connection.close?id=0-0-1", "", stream: 5)
        #expect(client.isClosed)
    }

    @Test func listsComeInPages() throws {
        let broker = TestBroker()
        let client = broker.connect()
        for number in 0..<5 { client.fireAndForget("t\(number)", "x", stream: UInt32(2 * number + 1)) }
        var place: Int? = 0
        var rows: [String] = []
        while let after = place {
            guard case .page(let page, let next) = broker.ask(.page(.topics, after: after, most: 2)) else {
                throw Missing()
            }
            #expect(page.count <= 2)
            rows += page
            place = next
        }
        #expect(rows.count == 6 && rows.filter { $0.contains("\"name\":\"t") }.count == 5)
        guard case .page(let none, next: nil) = broker.ask(.page(.topics, after: 1_000_000, most: 2)) else {
            throw Missing()
        }
        #expect(none.isEmpty)
    }
}
