// Time in which the broker did not run is not held against clients.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct StandstillTests {
    private func broker(_ set: (inout Limits) -> Void) -> TestBroker {
        var limits = Limits()
        set(&limits)
        return TestBroker(limits: limits)
    }

    /// Lets time pass in which no shard runs, which each shard then notices.
    private func standStill(_ broker: TestBroker, seconds: Double) {
        broker.now.monotonic += UInt64(seconds * 1e9)
        broker.now.wall += Int64(seconds * 1e9)
        for shard in broker.shards { shard.fire(now: broker.now) }
        broker.run()
    }

    @Test func silenceDoesNotCount() {
        let broker = broker { $0.lifetime = (2 * Limits.second)...(10 * Limits.second) }
        let client = broker.connect(lifetime: 2000)
        broker.advance(seconds: 0.5)
        standStill(broker, seconds: 60)
        #expect(!client.isClosed)
        broker.advance(seconds: 1)
        #expect(!client.isClosed && client.received() == ["keepalive? "])
        // Nor is more than that forgiven.
        broker.advance(seconds: 1)
        #expect(client.isClosed)
    }

    @Test func whoCouldNotComeBackMeanwhileStillCan() {
        let broker = broker { $0.resumeTime = 5 * Limits.second }
        let client = ResumingClient(broker)
        client.lose()
        broker.advance(seconds: 1)
        standStill(broker, seconds: 60)
        client.resume()
        #expect(client.resumed == 1)
        client.lose()
        broker.advance(seconds: 6)
        client.resume()
        #expect(client.resumed == 1 && client.refusal != nil)
    }

    @Test func aShortDelayIsNoStandstill() {
        let broker = broker { $0.lifetime = (2 * Limits.second)...(10 * Limits.second) }
        let client = broker.connect(lifetime: 2000)
        for _ in 0..<2 { standStill(broker, seconds: 1.2) }
        #expect(client.isClosed)
        #expect(!broker.log.contains { $0.message == "shard stalled" })
    }

    @Test func setupMayComeLate() {
        let broker = broker { $0.setupTime = 2 * Limits.second }
        let client = TestClient(broker, 0)
        broker.advance(seconds: 1)
        standStill(broker, seconds: 60)
        broker.advance(seconds: 0.5)
        #expect(!client.isClosed)
        broker.advance(seconds: 1)
        #expect(client.isClosed)
    }

    @Test func aBusyShardCountsItsTurnsAgainstNobodyWhoIsNew() {
        let broker = broker { $0.setupTime = 2 * Limits.second }
        let client = TestClient(broker, 0)
        // Each turn takes three times as long as a tick.
        for _ in 0..<7 { standStill(broker, seconds: 0.75) }
        #expect(!client.isClosed)
        for _ in 0..<2 { standStill(broker, seconds: 0.75) }
        #expect(client.isClosed)
    }

    @Test func unreadAnswersAndFullBuffersMayWait() {
        let broker = broker {
            $0.controlOutput = 1000
            $0.unreadTime = 3 * Limits.second
            $0.blockLimit = 3 * Limits.second
        }
        let deaf = broker.connect()
        deaf.window = 0
        for stream in 0..<50 { deaf.subscribe("bad*name", stream: UInt32(2 * stream + 1)) }
        let full = broker.connect()
        full.subscribe("t?overflow=block&buffer=1", n: 1)
        let publisher = broker.connect()
        for stream in 0..<2 { publisher.publish("t", "\(stream)", stream: UInt32(2 * stream + 1)) }
        broker.advance(seconds: 2)
        #expect(full.received() == ["1:0"])
        standStill(broker, seconds: 60)
        broker.advance(seconds: 0.5)
        full.requestN(1)
        #expect(full.received() == ["1:1"] && !deaf.isClosed)
        broker.advance(seconds: 1)
        #expect(deaf.isClosed)
    }

    @Test func itIsTold() {
        let broker = TestBroker(shards: 2)
        standStill(broker, seconds: 5)
        let reported = broker.log.filter { $0.message == "shard stalled" }
        #expect(reported.map { $0.fields.map { "\($0.value)" } } == [["0", "4750"], ["1", "4750"]])
    }

    @Test func momentsMoveToNowAtMost() {
        #expect(UInt64(5).excused(3, now: 100) == 8)
        #expect(UInt64(5).excused(.max, now: 100) == 100)
        #expect(UInt64(200).excused(3, now: 100) == 200)
    }
}
