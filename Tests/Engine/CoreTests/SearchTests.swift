// Searches by an operator: topics and subscriptions are found and sorted, over everything a shard has.

import Replay
import Testing

@testable import Core

@Suite struct SearchTests {
    private struct Missing: Error {}

    /// A message from a client takes a microsecond.
    private func isAbout(_ seconds: UInt64, _ nanoseconds: UInt64) -> Bool {
        (seconds * 1_000_000_000..<seconds * 1_000_000_000 + 1_000_000).contains(nanoseconds)
    }

    private func found(
        _ broker: TestBroker, _ table: Survey.Table, _ order: Survey.Order = .rank, most: Int = 100,
        _ set: (inout Survey) -> Void = { _ in }
    ) throws -> SurveyPart {
        var survey = Survey(table, most: most, order: order)
        set(&survey)
        let answer = broker.ask(.survey(survey))
        guard case .survey(let part) = answer else { throw Missing() }
        return part
    }

    @Test func searchingFindsWhateverComesLaterInTheOrder() throws {
        let broker = TestBroker()
        let client = broker.connect()
        for number in 0..<900 { client.fireAndForget("t\(number).Oslo", "x", stream: UInt32(2 * number + 1)) }
        let part = try found(broker, .topics, .name, most: 3) { ($0.find, $0.system) = (Needle("99.oSLO"), false) }
        #expect(part.topics.map(\.name) == ["t199.Oslo", "t299.Oslo", "t399.Oslo"] && part.found == 9)
        // The next page, with no more rows than remain.
        let more = try found(broker, .topics, .name, most: 5) {
            ($0.find, $0.last) = (Needle("99.oslo"), part.topics.last?.rank(by: .name))
        }
        #expect(more.topics.map(\.name) == ["t199.Oslo", "t299.Oslo"] && more.found == 9)
        // The broker's own topics are found by a search for them.
        #expect(try found(broker, .topics) { $0.find = Needle("$sys") }.found > 0)
        #expect(try found(broker, .topics) { ($0.find, $0.system) = (Needle("$sys"), false) }.found == 0)
    }

    /// In whatever order rows are added, the result is that of sorting all of them.
    @Test(arguments: [0, 1, 2, 7, 64, 500, 2000])
    func theFirstRowsAreThoseOfAllThatWereSorted(most: Int) {
        var random = LedgerRandom(state: UInt64(most + 1))
        var rows = FirstRows<Int>(most: most)
        var all: [(rank: Rank, row: Int)] = []
        for number in 0..<1000 {
            let rank = Rank(first: UInt64(random.next(300)), second: 0, name: "", id: UInt64(number))
            all.append((rank, number))
            rows.add(number, rank)
            guard number % 100 == 0 else { continue }
            // The last row kept is the bound for further rows.
            let known = all.sorted { $0.rank < $1.rank }.prefix(most)
            #expect(rows.last == (most > 0 && known.count == most ? known.last?.rank : nil))
        }
        #expect(rows.all() == all.sorted { $0.rank < $1.rank }.prefix(most).map(\.row))
    }

    /// A shard returns no more of its busiest topics than were requested.
    @Test func asManyOfTheBusiestAreToldAsAreWanted() throws {
        let broker = TestBroker()
        let client = broker.connect()
        var stream: UInt32 = 1
        for number in 1...30 {
            for _ in 0..<3 * number {
                client.fireAndForget("t\(number)", "x", stream: stream)
                stream += 2
            }
        }
        broker.advance(seconds: 1)
        for (most, names) in [(0, []), (1, ["t30"]), (3, ["t30", "t29", "t28"])] {
            #expect(try found(broker, .busiest, .busy, most: most).topics.map(\.name) == names)
        }
        #expect(try found(broker, .busiest, .busy).topics.count == broker.shards[0].topics.busiest.topics.count)
    }

    @Test func topicsStandInTheOrderThatIsWanted() throws {
        let broker = TestBroker()
        let slow = broker.connect()
        slow.subscribe("blocked?overflow=block&buffer=2", n: 1)
        slow.subscribe("lossy?buffer=1", n: 1, stream: 3)
        let client = broker.connect()
        var stream: UInt32 = 1
        func fireAndForget(_ topic: String, _ count: Int, _ text: String = "x") {
            for _ in 0..<count {
                client.fireAndForget(topic, text, stream: stream)
                stream += 2
            }
        }
        fireAndForget("busy", 50)
        fireAndForget("large", 2, String(repeating: "x", count: 9000))
        fireAndForget("lossy", 9)
        fireAndForget("blocked", 3)
        client.publish("blocked", "x", stream: stream)
        stream += 2
        func names(_ order: Survey.Order) throws -> [String] {
            try found(broker, .topics, order) { $0.system = false }.topics.map(\.name)
        }
        #expect(try names(.rank) == ["blocked", "busy", "lossy", "large"])
        #expect(try names(.trouble) == ["blocked", "lossy"])
        #expect(try names(.busy) == ["busy", "lossy", "blocked", "large"])
        #expect(try names(.bytes).first == "large" && names(.dropped).first == "lossy")
        #expect(try names(.behind).first == "blocked" && names(.name) == ["blocked", "busy", "large", "lossy"])
        // A topic that loses publishes is next.
        broker.memory.add(2 * broker.memory.limit)
        fireAndForget("large", 1)
        broker.memory.add(-2 * broker.memory.limit)
        let ranked = try names(.rank)
        #expect(ranked == ["blocked", "large", "busy", "lossy"])
        broker.advance(seconds: 61)
        let later = try names(.rank)
        #expect(later.suffix(3) == ["busy", "lossy", "large"], "it has not done so lately")
    }

    @Test func subscriptionsAreFoundByTopicClientAndPolicy() throws {
        let broker = TestBroker()
        let clients = (0..<3).map { _ in broker.connect() }
        clients[0].subscribe("a.one?buffer=5", n: 1)
        clients[1].subscribe("b.two?overflow=latest", n: 3)
        clients[2].subscribe("a.two", n: 2)
        for topic in ["a.one", "a.two"] {
            for n in 0..<9 { clients[1].fireAndForget(topic, "x", stream: UInt32(21 + 2 * n)) }
        }
        func topics(_ order: Survey.Order = .name, _ set: (inout Survey) -> Void) throws -> [String] {
            let part = try found(broker, .subscriptions, order, set)
            #expect(part.found == part.subscriptions.count)
            return part.subscriptions.map(\.topic)
        }
        #expect(try topics { $0.find = Needle("TWO") } == ["a.two", "b.two"])
        #expect(try topics { $0.find = Needle("latest") } == ["b.two"])
        #expect(try topics { $0.find = Needle("127.0.0.1:1000") }.count == 1)
        #expect(try topics { $0.find = Needle("nobody") }.isEmpty && topics { $0.slow = true }.isEmpty)
        #expect(try topics(.waiting) { _ in } == ["a.two", "a.one", "b.two"])
        #expect(try topics(.dropped) { _ in }.first == "a.one" && topics(.credit) { _ in }.last == "b.two")
        broker.advance(seconds: 1)
        #expect(try topics { $0.slow = true } == ["a.one", "a.two"])
        #expect(try found(broker, .subscriptions).subscriptionSums.slow == 2)
    }

    /// A client that has requested too little is distinguished from one that has never requested anything.
    @Test func whenItAskedLastIsTold() throws {
        let broker = TestBroker()
        let client = broker.connect()
        client.subscribe("t", n: 1)
        for n in 0..<9 { client.fireAndForget("t", "x", stream: UInt32(3 + 2 * n)) }
        broker.advance(seconds: 5)
        var row = try #require(try found(broker, .subscriptions).subscriptions.first)
        #expect(row.asked >= row.behind && isAbout(5, row.asked))
        client.requestN(2)
        broker.advance(seconds: 1)
        row = try #require(try found(broker, .subscriptions).subscriptions.first)
        #expect(isAbout(1, row.asked) && isAbout(6, row.behind) && row.waiting == 6)
    }

    @Test func howLongOneIsBehindIsToldByTopicAndPolicy() throws {
        let broker = TestBroker()
        let client = broker.connect()
        for (index, options) in ["a", "a?overflow=latest", "a", "b"].enumerated() {
            client.subscribe(options, n: 1, stream: UInt32(2 * index + 1))
        }
        for (index, topic) in ["a", "a", "b", "b"].enumerated() {
            if index == 2 { broker.advance(seconds: 2) }
            client.fireAndForget(topic, "x", stream: UInt32(2 * index + 21))
        }
        broker.advance(seconds: 1)
        let pairs = try found(broker, .subscriptions) { $0.pairs = 9 }.pairs
        #expect(pairs.map { "\($0.topic) \($0.policy.name)" } == ["a drop-oldest", "a latest", "b drop-oldest"])
        #expect(isAbout(3, pairs[0].behind) && isAbout(1, pairs[2].behind))
        #expect(try found(broker, .subscriptions) { $0.pairs = 1 }.pairs.count == 1)
    }
}
