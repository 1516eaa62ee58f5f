// Sweeps over everything proceed in slices, and waiting items are checked when they are due.

import ForebayWire
import Replay
import RSocket
import Testing

@testable import Core

@Suite struct SweepTests {
    private static let many = 300

    private func broker() -> (TestBroker, Shard, [TestClient]) {
        let broker = TestBroker()
        let clients = (0..<SweepTests.many).map { index in
            let client = broker.connect()
            client.subscribe("topic\(index)")
            return client
        }
        broker.advance(seconds: 0.5)
        return (broker, broker.shards[0], clients)
    }

    private func connections(_ shard: Shard) -> [Connection] {
        (0..<shard.connections.bound).compactMap { shard.connections.at($0) }
    }

    @Test func settingsAreReadAgainInSlices() {
        let (broker, shard, _) = broker()
        var limits = Limits()
        limits.retain = 7
        func adopted() -> Int { shard.topics.all.count { $0.window.retention.messages == 7 } }
        shard.adopt(limits, now: broker.now)
        #expect(shard.hasWork && adopted() == Work.sweep)
        broker.runAll()
        #expect(!shard.hasWork && adopted() == shard.topics.count)
        let view = shard.views["topic0"]!
        limits.retainBytes = 1234
        shard.adopt(limits, now: broker.now)
        #expect(view.byteLimit == 1234)
    }

    @Test func permissionsAreReadAgainInSlices() {
        let (broker, shard, _) = broker()
        func looked() -> Int { connections(shard).count { $0.lists.isTouched } }
        shard.reload(.open, now: broker.now)
        #expect(shard.hasWork && looked() > 0 && looked() <= Work.sweep)
        broker.runAll()
        #expect(!shard.hasWork && looked() == SweepTests.many)
    }

    /// The streams of one connection are reviewed in slices, each once.
    @Test func streamsAreReviewedInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let client = broker.connect()
        for stream in 0..<SweepTests.many { client.subscribe("t", stream: UInt32(2 * stream + 1)) }
        shard.reload(AccessTable(users: [], anonymous: Permissions()), now: broker.now)
        #expect(shard.hasWork && shard.subscriptions.count >= SweepTests.many - Work.sweep)
        broker.runAll()
        #expect(shard.subscriptions.count == 0)
    }

    @Test func aBrokerThatEndsTellsItInSlices() {
        let (broker, shard, _) = broker()
        let reported = broker.now.monotonic
        func looked() -> Int { connections(shard).count { $0.lifecycle.drained.at == reported } }
        shard.drain(now: broker.now)
        #expect(shard.hasWork && looked() == Work.sweep)
        broker.runAll()
        #expect(!shard.hasWork && looked() == SweepTests.many)
    }

    @Test func whatIsNotAcknowledgedIsGivenUpInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let clients = (0..<100).map { index in
            let client = ResumingClient(broker, token: [UInt8](repeating: UInt8(index), count: 16))
            client.answers = false
            client.subscribe("t", n: 9, stream: 1)
            return client
        }
        let other = broker.connect()
        other.publish("t", "1", stream: 1)
        for client in clients {
            client.take()
            client.lose()
        }
        broker.now.monotonic += 3 * Limits.second
        broker.memory.limit = 1
        func given() -> Int { connections(shard).count { $0.session != nil && $0.output.unacknowledged == 0 } }
        #expect(given() == 0)
        shard.parts.protocols.resumption.giveUpUnacknowledged(now: broker.now)
        #expect(shard.hasWork && given() > 0 && given() <= Work.sweep)
        broker.runAll()
        #expect(given() == 100)
    }

    /// Views whose figures have changed since the last tick.
    @Test func figuresAreToldInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let client = broker.connect()
        let count = Ticker.slice + 100
        for index in 0..<count { client.subscribe("topic\(index)", stream: UInt32(2 * index + 1)) }
        broker.advance(seconds: 1)
        for index in 0..<count { client.fireAndForget("topic\(index)", "x") }
        func touched() -> Int { shard.views.named.count { $0.isTouched && !TopicName.isSystem($0.name) } }
        let before = touched()
        #expect(before > Ticker.slice)
        broker.now.monotonic += Timers.interval
        shard.fire(now: broker.now)
        #expect(touched() > 0 && touched() < before)
        shard.fire(now: broker.now)
        #expect(touched() == 0)
    }

    /// Views that hold messages in a form other than the log's are swept in slices when memory is short; no other views
    /// are.
    @Test func otherFormsAreGivenUpInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let peer = TestGRPC(broker)
        let publisher = broker.connect()
        for index in 0..<SweepTests.many {
            let topic = "topic\(index)"
            _ = peer.subscribe(topic)
            publisher.publish(topic, "x", stream: UInt32(2 * index + 1))
        }
        peer.read()
        #expect(shard.relief.viewsWithForms.count == SweepTests.many)
        broker.memory.limit = 1
        shard.relief.relieve(now: broker.now)
        #expect(shard.relief.viewsWithForms.count == SweepTests.many - MemoryRelief.topicsPerLook)
        peer.client.disconnect()
        #expect(shard.relief.viewsWithForms.isEmpty)
    }

    /// Waiting publishers are checked when something is due, not in each tick.
    @Test func whoWaitsForRoomIsAtRest() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let reader = broker.connect()
        reader.subscribe("t?overflow=block&buffer=1", n: 1)
        let publisher = broker.connect()
        for stream in 0..<3 { publisher.publish("t", "x", stream: UInt32(2 * stream + 1)) }
        #expect(shard.topics.all.contains { $0.publishers.current.parked.count == 1 })
        broker.advance(seconds: 0.5)
        #expect(shard.timers.topics.deadline! > broker.now.monotonic + 5 * Limits.second)
        #expect(shard.timers.blockers.deadline! > broker.now.monotonic + 20 * Limits.second)
        // The time spent blocked is still counted.
        #expect(shard.currentCounters().blocked >= 500_000_000)
        reader.requestN(9)
        #expect(reader.received().filter { $0 == "1:x" }.count == 3)
        let blocked = shard.currentCounters().blocked
        broker.advance(seconds: 1)
        #expect(shard.currentCounters().blocked == blocked)
    }

    /// Each of many full subscriptions gives way when its time limit expires; those that made progress do not.
    @Test func allThatAreFullGiveWayInTime() {
        var limits = Limits()
        limits.blockLimit = 3 * Limits.second
        let broker = TestBroker(limits: limits)
        let shard = broker.shards[0]
        let clients = (0..<30).map { _ in broker.connect() }
        for client in clients {
            for stream in 0..<200 {
                client.subscribe("t?overflow=block&buffer=1", n: 1, stream: UInt32(2 * stream + 1))
            }
        }
        let publisher = broker.connect()
        publisher.publish("t", "1", stream: 1)
        publisher.publish("t", "2", stream: 3)
        broker.advance(seconds: 2)
        clients[0].requestN(1)
        broker.advance(seconds: 1.25)
        // Each of these consecutive turns has time for some of the ends.
        for _ in 0..<6000 / (Work.turn / 2 / Work.ending) + 9 {
            shard.beginTurn()
            shard.fire(now: broker.now)
        }
        #expect(shard.subscriptions.count == 1)
    }

    /// Reservations of many channels end some at a time, and still on time.
    @Test func reservationsEndInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        broker.connect().subscribe("t?overflow=block&buffer=100000")
        let publisher = broker.connect()
        for stream in 0..<2000 { publisher.channel("t", "x", n: 9, stream: UInt32(2 * stream + 1)) }
        let topic = shard.topics.all.first { $0.name == "t" }!
        #expect(topic.publishers.room.reserved > 0)
        broker.now.monotonic += Limits.second + 1
        let now = broker.now.monotonic
        #expect(topic.tick(most: 10, now: broker.now) == 10)
        #expect(topic.publishers.room.reserved > 0 && topic.deadline(now: now) <= now)
        for _ in 0..<9 { shard.fire(now: broker.now) }
        #expect(topic.deadline(now: broker.now.monotonic) > broker.now.monotonic)
    }
}
