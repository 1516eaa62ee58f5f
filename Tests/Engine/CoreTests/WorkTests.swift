// The work of one turn: no client's input is processed to its end while others wait, and what is idle is not visited.

import Bytes
import HTTP2
import HTTP2Frames
import Replay
import RSocket
import Testing

@testable import Core

@Suite struct WorkTests {
    /// Hands a client's bytes to its shard; the buffer lives until they are read.
    private func receive(_ bytes: borrowing ByteBuffer, from client: TestClient, _ broker: TestBroker) {
        broker.shards[client.shard].receive(bytes.readable, on: client.id, now: broker.now)
    }

    /// Subscriptions to a topic on shard 0 that are cancelled at once.
    private func churn(_ pairs: Int, _ topic: String = "t") -> ByteBuffer {
        var buffer = ByteBuffer()
        Array(topic.utf8).withUnsafeBytes { route in
            for pair in 0..<pairs {
                let stream = UInt32(2 * pair + 1)
                FrameWriter.requestStream(
                    stream: stream, initialN: 1, metadata: route, data: UnsafeRawBufferPointer(start: nil, count: 0),
                    fragment: 1 << 20, into: &buffer)
                FrameWriter.cancel(stream: stream, into: &buffer)
            }
        }
        return buffer
    }

    private func message(_ topic: String) -> ByteBuffer {
        var buffer = ByteBuffer()
        Array(topic.utf8).withUnsafeBytes {
            FrameWriter.requestFNF(stream: 1, metadata: $0, data: $0, fragment: 1 << 20, into: &buffer)
        }
        return buffer
    }

    @Test func aFloodIsDealtWithByQuantum() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let floods = (0..<3).map { _ in broker.connect() }
        let bystander = broker.connect()
        let buffer = churn(1000)
        shard.beginTurn()
        for flood in floods {
            receive(buffer, from: flood, broker)
            #expect(shard.isBehind(flood.id) && shard.hasWork)
        }
        #expect(shard.counters.subscriptionsOpened < 100 && !shard.isTurnOver)
        // Other clients are served, however much waits.
        bystander.publish("t", "hello")
        #expect(bystander.received().count == 1)
        broker.runAll()
        #expect(shard.counters.subscriptionsOpened == 3000 && !shard.hasWork && !shard.isBehind(floods[0].id))
        #expect(shard.subscriptions.count == 0)
    }

    /// Each request is one event, however many fields it has.
    @Test func requestsOfManyFieldsAreDealtWithByQuantum() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let calls = TestGRPC(broker)
        let fields = (0..<400).map { _ in ("a", "") }
        let bytes = (0..<60).flatMap { get(UInt32(2 * $0 + 1), fields) }
        var requests: UInt64 { calls.http?.session?.pointee.counters.requests ?? 0 }
        shard.beginTurn()
        bytes.withUnsafeBytes { shard.receive($0, on: calls.client.id, now: broker.now) }
        #expect(shard.isBehind(calls.client.id) && requests < 10)
        broker.runAll()
        #expect(requests == 60 && !shard.hasWork)
    }

    @Test func aTurnEnds() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let buffer = churn(1000)
        let floods = (0..<100).map { _ in broker.connect() }
        shard.beginTurn()
        for flood in floods where !shard.isTurnOver { receive(buffer, from: flood, broker) }
        #expect(shard.isTurnOver && !shard.isBehind(floods[50].id), "some are not read in this turn")
        shard.beginTurn()
        shard.goOn(now: broker.now)
        #expect(!shard.isTurnOver, "the remaining work takes half a turn")
    }

    /// While all connections are swept, deferred inputs make progress, and a turn has time for new ones.
    @Test func aSweepKeepsNobodyWaiting() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let idle = (0..<20 * Work.sweep).map { _ in broker.connect() }
        let flood = broker.connect()
        shard.beginTurn()
        receive(churn(100), from: flood, broker)
        shard.reload(.open, now: broker.now)
        #expect(shard.isSweeping(.permissions) && shard.isBehind(flood.id))
        for _ in 0..<15 where shard.isBehind(flood.id) {
            shard.beginTurn()
            shard.goOn(now: broker.now)
            #expect(!shard.isTurnOver)
        }
        #expect(!shard.isBehind(flood.id) && shard.isSweeping(.permissions), "\(idle.count)")
        broker.runAll()
    }

    /// Closing a socket, especially a TLS one, takes time of the turn too.
    @Test func connectionsThatExpireTogetherEndInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        for _ in 0..<200 { _ = shard.open(peer: "127.0.0.1:1", wireProtocol: .http, now: broker.now) }
        broker.advance(seconds: 4.8)
        var turns = 0
        while shard.connections.count > 0, turns < 200 {
            let before = shard.connections.count
            broker.now.monotonic += Timers.interval / 100
            shard.beginTurn()
            shard.fire(now: broker.now)
            #expect(before - shard.connections.count <= Work.turn / Work.closing)
            turns += 1
        }
        #expect(shard.connections.count == 0)
        broker.runAll()
    }

    @Test func signsOfLifeGoInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let peers = (0..<3).map { _ in TestGRPC(broker) }
        let streams = peers.map { peer in (0..<300).map { _ in peer.listen("t", accept: "text/event-stream") } }
        func served() -> Int {
            zip(peers, streams).reduce(0) { sum, each in
                sum + each.1.count { each.0.exchange($0)?.plain?.lastSign == broker.now.monotonic }
            }
        }
        broker.now.monotonic += Limits().heartbeat + Limits.second
        var total = 0
        for _ in 0..<100 where total < 900 {
            broker.now.monotonic += Timers.interval / 100
            shard.beginTurn()
            shard.fire(now: broker.now)
            #expect(served() <= 300)
            total += served()
        }
        #expect(total == 900)
        broker.runAll()
    }

    @Test func manyStreamsEndInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let client = broker.connect()
        for stream in 0..<1000 { client.subscribe("t", stream: UInt32(2 * stream + 1)) }
        shard.lost(client.id, reason: "test", now: broker.now)
        #expect(shard.hasWork && shard.subscriptions.count >= 1000 - 2 * Work.endings)
        let other = broker.connect()
        other.fireAndForget("t", "x")
        broker.runAll()
        #expect(shard.subscriptions.count == 0 && shard.streams.count == 0 && !shard.hasWork)
    }

    @Test func endingsCountAndKeepNobodyWaiting() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let leaving = (0..<10).map { _ in broker.connect() }
        for (index, client) in leaving.enumerated() {
            for stream in 0..<500 {
                let stream = UInt32(2 * stream + 1)
                if index % 2 == 0 {
                    client.subscribe("t", stream: stream)
                } else {
                    client.channel("t", "x", stream: stream)
                }
            }
        }
        let flood = broker.connect()
        let buffer = churn(1000)
        for client in leaving {
            shard.beginTurn()
            shard.lost(client.id, reason: "test", now: broker.now)
            #expect(shard.work.spent >= Work.endings * Work.ending)
        }
        shard.beginTurn()
        receive(buffer, from: flood, broker)
        let before = shard.counters.subscriptionsOpened
        shard.beginTurn()
        shard.goOn(now: broker.now)
        #expect(shard.counters.subscriptionsOpened > before, "it is not served after all of them")
        broker.runAll()
        #expect(shard.subscriptions.count == 0 && !shard.hasWork)
    }

    @Test(arguments: [false, true]) func manyPublishersAreToldOfAnEndInSlices(isDeleted: Bool) throws {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let client = broker.connect()
        for stream in 0..<1000 { client.channel("t", "x", stream: UInt32(2 * stream + 1)) }
        let topic = try #require(shard.topics["t"])
        _ = client.received()
        if isDeleted {
            shard.parts.output.ownership.delete(topic, now: broker.now)
        } else {
            topic.finish(.completed, now: broker.now)
        }
        #expect(shard.hasWork && topic.publishers.current.channels.count >= 1000 - 2 * Work.endings)
        // A channel that has not been notified yet finds out when it continues.
        let other = broker.connect()
        other.channel("t", "x")
        #expect(other.received().contains { $0.contains("!") } != isDeleted)
        broker.runAll()
        #expect(topic.publishers.current.channels.isEmpty && !shard.hasWork)
        #expect(client.received().count { $0.contains("!") } == 1000)
        #expect(shard.topics.count == 2, "a deleted one is forgotten, but there are a new one and that of the events")
    }

    @Test func whatIsPutAsideOfAConnectionThatEndsIsNotDealtWith() throws {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let flood = broker.connect()
        flood.window = 0
        let buffer = churn(1000)
        receive(buffer, from: flood, broker)
        #expect(shard.isBehind(flood.id))
        let before = shard.counters.subscriptionsOpened
        let connection = try #require(shard.find(flood.id))
        shard.parts.requests.connectionEnds.fatal(
            connection, RSocketError(code: .connectionError, sentence: "test", scope: .connection), now: broker.now)
        broker.runAll()
        #expect(shard.counters.subscriptionsOpened == before && !shard.hasWork)
    }

    @Test func nothingFollowsTheErrorOfAConnection() throws {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let client = broker.connect()
        for stream in 0..<1000 { client.channel("t", "x", stream: UInt32(2 * stream + 1)) }
        _ = client.received()
        let connection = try #require(shard.find(client.id))
        let topic = try #require(shard.topics["t"])
        shard.parts.requests.connectionEnds.fatal(
            connection, RSocketError(code: .connectionError, sentence: "test", scope: .connection), now: broker.now)
        #expect(shard.hasWork && topic.publishers.current.channels.count > 0)
        topic.finish(.completed, now: broker.now)
        broker.runAll()
        #expect(client.received() == ["0:! 101 protocol: test"])
    }

    @Test func aCrowdGetsAMessageInSlices() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let client = broker.connect()
        for stream in 0..<100 { client.subscribe("t", stream: UInt32(2 * stream + 1)) }
        shard.slice = 10
        let publisher = broker.connect()
        let message = message("t")
        receive(message, from: publisher, broker)
        #expect(shard.hasWork && shard.counters.delivered == 10)
        broker.runAll()
        #expect(shard.counters.delivered == 100 && client.received().count == 100)
    }

    /// Idle topics and connections are in no list that a tick visits.
    @Test func whatIsAtRestIsNotLookedAt() {
        let broker = TestBroker()
        let shard = broker.shards[0]
        let clients = (0..<50).map { _ in broker.connect() }
        for (index, client) in clients.enumerated() { client.subscribe("topic\(index)") }
        #expect(shard.timers.touchedCount == 50)
        broker.advance(seconds: 0.5)
        #expect(shard.timers.touchedCount == 0 && shard.timers.connections.count == 50)
        // After half of SETUP's lifetime a keepalive is requested, and after `topic-idle` topics may be idle.
        #expect(shard.timers.connections.deadline! > broker.now.monotonic + 200 * Limits.second)
        #expect(shard.timers.topics.deadline! > broker.now.monotonic + 200 * Limits.second)
        clients[0].cancel()
        broker.advance(seconds: 301)
        #expect(shard.timers.topics.count == 0, "only what is idle is checked again")
        #expect(shard.topics["topic0"] == nil && shard.topics["topic1"] != nil)
    }

    /// A shard that does not read its messages is sent one report, and a limited number of bytes of events.
    @Test func requestsOnTheirWayAreFew() {
        let broker = TestBroker(shards: 2)
        let shard = broker.shards[0]
        let topic = (0..<100).map { "topic\($0)" }.first { shard.owner(of: $0) == 1 }!
        let clients = (0..<20).map { _ in broker.connect(0) }
        var buffer = ByteBuffer()
        let one = message(topic)
        for _ in 0..<500 { buffer.append(one.readable) }
        for client in clients {
            receive(buffer, from: client, broker)
            while shard.hasWork { shard.goOn(now: broker.now) }
        }
        #expect(
            shard.forwarding.count > Work.shardMessagesInFlight
                && shard.forwarding.count <= Work.shardMessagesInFlight + clients.count)
        broker.runAll()
        #expect(shard.forwarding.count == 0 && broker.shards[1].topics[topic]?.published == 10_000)
    }

    @Test func aShardThatLagsIsNotSentEverMore() {
        let broker = TestBroker(shards: 2)
        let owner = broker.shards[0].owner(of: SystemTopic.events)
        let shard = broker.shards[1 - owner]
        let topic = (0..<100).map { "topic\($0)" }.first { shard.owner(of: $0) == 1 - owner }!
        let client = broker.connect(1 - owner)
        let before = broker.memory.used
        let buffer = churn(500, topic)
        for _ in 0..<50 {
            receive(buffer, from: client, broker)
            while shard.hasWork { shard.goOn(now: broker.now) }
        }
        #expect(shard.effects.messages[owner].count <= 2)
        #expect(shard.parts.tables.reports.charged <= 3 * Reports.eventBytes && shard.counters.limits[.events] > 0)
        #expect(broker.memory.used - before >= shard.parts.tables.reports.charged)
        broker.runAll()
        #expect(shard.parts.tables.reports.charged == 0)
    }

    /// What is in flight to another shard counts towards the broker's memory, and nothing is forwarded when the memory
    /// is full.
    @Test func publishesOnTheirWayCountAsMemory() {
        var limits = Limits()
        limits.memory = 1 << 20
        let broker = TestBroker(shards: 2, limits: limits)
        let shard = broker.shards[0]
        let topic = (0..<100).map { "topic\($0)" }.first { shard.owner(of: $0) == 1 }!
        let clients = (0..<20).map { _ in broker.connect() }
        var buffer = ByteBuffer()
        let payload = [UInt8](repeating: 7, count: 100_000)
        Array(topic.utf8).withUnsafeBytes { route in
            payload.withUnsafeBytes {
                FrameWriter.requestFNF(stream: 1, metadata: route, data: $0, fragment: 1 << 20, into: &buffer)
            }
        }
        for client in clients { receive(buffer, from: client, broker) }
        #expect(shard.forwarding.bytes > 0 && broker.memory.used >= shard.forwarding.bytes)
        #expect(shard.forwarding.bytes <= limits.memory / 4 * 5 + 200_000)
        #expect(shard.counters.publishesDropped.total > 0)
        broker.runAll()
        #expect(shard.forwarding.bytes == 0)
    }
}
