// since: subscriptions that begin at a time, on every protocol.

import ForebayWire
import HTTP2
import RSocket
import Replay
import Testing

@testable import Core

/// Publishes "1", "2" and so on, a second apart.
private final class TimedTopic {
    static let minute: Int64 = 60_000_000_000
    static let second: Int64 = 1_000_000_000
    /// When "1" is published: 2023-11-14T22:13:20Z.
    static let first: Int64 = 1_700_000_000_000_000_000

    let broker: TestBroker
    let publisher: TestClient
    private(set) var count = 0

    init(_ messages: Int, shards: Int = 1, limits: Limits = Limits()) {
        broker = TestBroker(shards: shards, limits: limits)
        publisher = broker.connect()
        for _ in 0..<messages { publish() }
    }

    func publish(after nanoseconds: Int64 = second) {
        count += 1
        publisher.publish("t", String(count))
        broker.now.wall += nanoseconds
    }

    /// What a new subscription receives, as numbers.
    func replayed(_ options: String, shard: Int = 0) -> [Int] {
        let client = broker.connect(shard)
        client.subscribe("t?" + options)
        return client.received().compactMap { line in line.split(separator: ":").last.flatMap { Int($0) } }
    }
}

@Suite struct SinceTests {
    // The messages have the times :20 to :29; the present is :30.
    @Test(
        arguments: [0, 1],
        [
            ("2023-11-14T22:13:20Z", 1), ("2023-11-14T22:13:23Z", 4), ("2023-11-14T22:13:23.000000001Z", 5),
            ("2023-11-14T22:13:22.5Z", 4), ("2023-11-14T23:13:28%2B01:00", 9), ("2023-11-14T22:13:29Z", 10),
            ("2023-11-14T22:13:29.1Z", 11), ("2023-11-14T22:13:31Z", 11), ("2026-11-22T09:30:00Z", 11),
            ("1970-01-01T00:00:00Z", 1), ("-1s", 10), ("-1500ms", 10), ("-3s", 8), ("-10s", 1), ("-5m", 1), ("-7d", 1),
            ("-106751d", 1), ("-0s", 11), ("-999ms", 11),
        ])
    func itBeginsWithTheFirstMessageAtOrAfterTheTime(_ shard: Int, _ given: (since: String, first: Int)) {
        let topic = TimedTopic(10, shards: 2)
        let client = topic.broker.connect(shard)
        client.subscribe("t?since=" + given.since)
        #expect(client.received() == (given.first..<11).map { "1:\($0)" })
        topic.publish()
        #expect(client.received() == ["1:11"], "a time in the future begins with the next message")
    }

    @Test func messagesOfOneMomentAreKeptTogether() {
        let topic = TimedTopic(3)
        for _ in 0..<5 { topic.publish(after: 0) }
        topic.publish()
        #expect(topic.replayed("since=2023-11-14T22:13:23Z") == Array(4...9))
        #expect(topic.replayed("since=2023-11-14T22:13:23.1Z") == [])
    }

    /// What is older than the window is not a gap, unlike with `from`.
    @Test func anOlderTimeBeginsWithTheOldestRetainedWithoutAGap() {
        var limits = Limits()
        limits.retain = 4
        let topic = TimedTopic(10, limits: limits)
        for options in ["since=-1h&gap=fail", "since=2023-11-14T22:13:20Z&gap=fail", "since=1970-01-01T00:00:00Z"] {
            #expect(topic.replayed(options) == [7, 8, 9, 10])
        }
        let client = topic.broker.connect()
        client.subscribe("t?since=-1h&meta=on")
        #expect(client.received().allSatisfy { !$0.contains("dropped") })
        #expect(topic.replayed("since=-2s") == [9, 10])
    }

    @Test func policiesApplyAsWithReplay() {
        let topic = TimedTopic(10)
        #expect(topic.replayed("since=-5s&overflow=latest") == [10])
        #expect(topic.replayed("since=-5s&buffer=1&overflow=fail") == Array(6...10))
        #expect(topic.replayed("since=-0s&overflow=latest") == [])
    }

    @Test func aTopicWithoutMessages() {
        let broker = TestBroker()
        let client = broker.connect()
        client.subscribe("t?since=-1h")
        client.publish("t", "a")
        #expect(client.received().contains("1:a"))
    }

    @Test func anEndedTopicStillHasItsHistory() {
        let topic = TimedTopic(5)
        topic.publisher.publish("$SYS.topic.complete?name=t", "")
        let client = topic.broker.connect()
        client.subscribe("t?since=-2s")
        #expect(client.received() == ["1:4", "1:5", "1:|"])
    }

    /// The view of another shard attaches later; a duration counts from when the request was read.
    @Test(arguments: 1...30 as ClosedRange<UInt64>) func aDurationCountsFromTheRequest(_ seed: UInt64) {
        let topic = TimedTopic(10, shards: 2)
        let client = topic.broker.connect(1)
        topic.broker.chaos = LedgerRandom(state: seed)
        client.subscribe("t?since=-3s")
        topic.broker.now.wall += TimedTopic.minute
        topic.broker.runAll()
        #expect(client.received() == ["1:8", "1:9", "1:10"])
    }

    /// If the clock is set back, messages get the timestamp of the one before them, so that a search finds each.
    @Test func aClockThatIsSetBack() {
        let topic = TimedTopic(5)
        topic.broker.now.wall -= TimedTopic.minute
        for _ in 0..<3 { topic.publish() }
        #expect(topic.replayed("since=2023-11-14T22:13:24Z") == [5, 6, 7, 8])
        #expect(topic.replayed("since=2023-11-14T22:13:24.1Z") == [])
        #expect(topic.replayed("since=-1s") == Array(1...8), "all are later than the clock")
        topic.broker.now.wall += 2 * TimedTopic.minute
        topic.publish()
        #expect(topic.replayed("since=2023-11-14T22:13:24.1Z") == [9])
    }

    @Test func messagesThatAreTooOldAreNotReplayed() {
        var limits = Limits()
        limits.retainAge = 5 * Limits.second
        let broker = TestBroker(limits: limits)
        let publisher = broker.connect()
        for number in 1...10 {
            publisher.publish("t", String(number))
            broker.advance(seconds: 1)
        }
        let client = broker.connect()
        client.subscribe("t?since=-1h")
        let got = client.received()
        #expect(got.last == "1:10" && (4...6).contains(got.count))
    }

    @Test func overGRPC() {
        let topic = TimedTopic(10)
        let peer = TestGRPC(topic.broker)
        func received(since: Int64 = 0, ago: UInt64 = 0) -> [String] {
            let stream = peer.subscribe("t", since: since, ago: ago)
            return peer[stream].responses().flatMap { $0.messages.map(\.text) }
        }
        #expect(received(since: TimedTopic.first + 7 * TimedTopic.second) == ["8", "9", "10"])
        #expect(received(since: TimedTopic.first + 7 * TimedTopic.second + 1) == ["9", "10"])
        #expect(received(ago: 2 * UInt64(TimedTopic.second)) == ["9", "10"])
        #expect(received(since: 1).count == 10 && received(ago: .max).count == 10)
        #expect(received(since: .max) == [] && received(ago: 1) == [])
        let stream = peer.subscribe("t", all: true, since: 5)
        #expect(peer[stream].status == "3")
        #expect(
            peer[stream].message?.hasPrefix("invalid: replay_last, replay_all, from_sequence, since_ns and") == true)
        let negative = peer.subscribe("t", since: -1)
        #expect(peer[negative].status == "3" && peer[negative].message?.contains("before 1970") == true)
    }

    @Test func overHTTP() {
        let topic = TimedTopic(10)
        let peer = TestGRPC(topic.broker)
        let lines = peer.listen("t", options: "since=2023-11-14T22:13:28Z")
        #expect(peer[lines].text.split(separator: "\n").map { $0.contains("\"sequence\":9,") } == [true, false])
        let events = peer.listen("t", accept: "text/event-stream", options: "since=-1s&opening=on")
        #expect(peer[events].text.contains(",\"next\":10}") && peer[events].text.contains("data: 10"))
        // In a query, + is a plus sign.
        for plus in ["+", "%2B"] {
            let stream = peer.listen("t", options: "since=2023-11-14T23:13:29\(plus)01:00")
            #expect(peer[stream].text.contains("\"sequence\":10,") && !peer[stream].text.contains("\"sequence\":9,"))
        }
    }

    @Test(arguments: ["since=5m", "since=2023-11-14", "since=-5m&replay=1", "since=-5m&from=2"])
    func whatIsRefused(_ options: String) {
        let client = TestBroker().connect()
        client.subscribe("t?" + options)
        #expect(client.received().first?.hasPrefix("1:! 204 invalid: ") == true)
    }
}
