// A channel's messages that arrive in one read are handled as a run; credit, room and limits count as for each one.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct RunTests {
    private func texts(_ count: Int) -> [String] { (0..<count).map { "m\($0)" } }

    /// The broker, a subscriber and a channel with credit for `granted` messages; on different shards if there are two.
    private func channel(shards: Int, _ set: (inout Limits) -> Void) -> (TestBroker, TestClient, TestClient, Int) {
        var limits = Limits()
        set(&limits)
        let broker = TestBroker(shards: shards, limits: limits)
        let owner = broker.shards[0].owner(of: "t")
        let subscriber = broker.connect(owner)
        subscriber.subscribe("t?buffer=10000")
        let publisher = broker.connect(shards - 1 - owner)
        publisher.channel("t", "first")
        var granted = 0
        for line in publisher.received() where line.hasPrefix("5:+") { granted += Int(line.dropFirst(3))! }
        #expect(subscriber.received() == ["1:first"])
        return (broker, subscriber, publisher, granted)
    }

    @Test(arguments: [1, 2]) func aRunWithinTheCreditIsTakenAndGrantedAnew(shards: Int) {
        let (_, subscriber, publisher, granted) = channel(shards: shards) { $0.grant = 100 }
        #expect(granted == 100)
        publisher.items(texts(100))
        #expect(subscriber.received() == texts(100).map { "1:" + $0 })
        #expect(publisher.received() == ["5:101", "5:+100"])
    }

    @Test(arguments: [1, 2]) func ofARunBeyondTheCreditThatIsTakenWhichTheCreditAllows(shards: Int) {
        let (_, subscriber, publisher, _) = channel(shards: shards) { $0.grant = 100 }
        publisher.items(texts(103))
        #expect(subscriber.received() == texts(100).map { "1:" + $0 })
        let reported = publisher.received()
        #expect(reported.contains { $0.hasPrefix("5:!") && $0.contains("beyond its credit") }, "\(reported)")
    }

    @Test(arguments: [1, 2]) func aMessageAboveTheLimitOfTheLogEndsTheRun(shards: Int) {
        let (_, subscriber, publisher, _) = channel(shards: shards) { $0.retainBytes = 40_000 }
        publisher.items(["a", "b", String(repeating: "x", count: 40_000), "c"])
        #expect(subscriber.received() == ["1:a", "1:b"])
        #expect(publisher.received().last?.hasPrefix("5:!") == true)
    }

    @Test(arguments: [1, 2]) func itemsWithAndWithoutMetadataKeepTheirOrder(shards: Int) {
        let (_, subscriber, publisher, _) = channel(shards: shards) { _ in }
        publisher.send { buffer in
            for number in 0..<30 {
                Array("\(number)".utf8).withUnsafeBytes { data in
                    FrameWriter.payload(
                        stream: 5, next: true, complete: false, metadata: number % 4 == 3 ? data : nil, data: data,
                        fragment: 0, into: &buffer)
                }
            }
        }
        #expect(subscriber.received() == (0..<30).map { "1:\($0)" })
    }

    /// Late use of grants is counted per message, wherever in a run the limit was exceeded.
    @Test func whatGoesPastABlockSubscriptionIsCounted() {
        let broker = TestBroker()
        let publisher = broker.connect()
        publisher.channel("t", "first")
        broker.connect().subscribe("t?overflow=block&buffer=10", n: 1)
        publisher.items(texts(25))
        let topic = broker.shards[0].topics["t"]!
        // There was room for ten when the data was read.
        #expect(topic.publishers.overshoot == 15)
        #expect(topic.published == 26)
    }
}
