// Which publishers get the room if there is little.

import Testing

@testable import Core

@Suite struct TopicMaintenanceTests {
    /// Publishes are parked all the time, and there is room for one message at a time.
    @Test(arguments: DeliveryTests.placements)
    func parkedPublishesAndChannelsTakeTurns(_ shards: Int, _ at: Int, _ from: Int) {
        let broker = TestBroker(shards: shards)
        let subscriber = broker.connect(at)
        subscriber.subscribe("t?overflow=block&buffer=1", n: 1)
        let (publisher, other) = (broker.connect(from), broker.connect(from))
        publisher.channel("t", "c", n: 1, stream: 3)
        var stream: UInt32 = 5
        var (granted, acknowledged) = (0, 0)
        func publish() {
            other.publish("t", "p", stream: stream)
            stream += 2
        }
        for _ in 0..<3 { publish() }
        for _ in 0..<40 {
            subscriber.requestN(1)
            for line in publisher.received() where line.hasPrefix("3:+") {
                granted += 1
                publisher.items(["c"], stream: 3)
            }
            for _ in other.received() {
                acknowledged += 1
                publish()
            }
        }
        #expect(granted >= 15 && acknowledged >= 15, "\(granted) \(acknowledged)")
    }
}
