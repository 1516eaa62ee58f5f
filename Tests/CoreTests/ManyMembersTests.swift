// Views with many subscriptions: what each of them does must not cost a look at all the others.

import Replay
import Testing

@testable import Core

@Suite struct ManyMembersTests {
    private let many = 2 * Mirror.many

    private func crowd(_ route: String, _ broker: TestBroker) -> TestClient {
        let client = broker.connect()
        for index in 0..<many { client.subscribe(route, n: 1, stream: UInt32(2 * index + 1)) }
        return client
    }

    /// Here each comes a microsecond behind the one before: from the 256th on the owner is told after as many
    /// microseconds as there are members, so once until there are 512, instead of 257 times.
    @Test func thoseWhoComeAtOnceAreToldTogether() {
        let broker = TestBroker()
        let client = broker.connect()
        var told: [Int] = []
        for index in 0..<many {
            client.subscribe("t", n: 1, stream: UInt32(2 * index + 1))
            let count = broker.shards[0].names["t"]!.subscriptions
            if told.last != count { told.append(count) }
        }
        #expect(told == Array(1..<Mirror.many) + [2 * Mirror.many - 2])
        let topic = broker.shards[0].names["t"]!
        broker.advance(seconds: 0.25)
        #expect(topic.subscriptions == many)
        for index in 0..<100 { client.cancel(stream: UInt32(2 * index + 1)) }
        broker.advance(seconds: 0.25)
        #expect(topic.subscriptions == many - 100)
        client.disconnect()
        #expect(topic.subscriptions == 0, "the last one is told at once")
    }

    @Test func newMessagesAreToldOfAtOnce() {
        let broker = TestBroker()
        let client = crowd("t", broker)
        let topic = broker.shards[0].names["t"]!
        broker.advance(seconds: 0.25)
        let publisher = broker.connect()
        publisher.publish("t", "a", stream: 1)
        #expect(client.received().count == many && topic.delivered == UInt64(many))
        publisher.publish("t", "b", stream: 3)
        #expect(topic.mirrors[0].progress.seen == topic.log.end)
        #expect(client.received().isEmpty)
        // Nobody needs the first one any more, and all the second one.
        for index in 0..<many { client.requestN(1, stream: UInt32(2 * index + 1)) }
        #expect(client.received().count == many)
        broker.advance(seconds: 0.25)
        #expect(topic.mirrors[0].progress.needed == topic.log.end)
    }

    @Test func publishersGoOnAsSoonAsTheLastOfManyBlockersAsks() {
        let broker = TestBroker()
        let client = crowd("t?overflow=block&buffer=1", broker)
        let publisher = broker.connect()
        for index in 0..<3 { publisher.publish("t", "\(index)", stream: UInt32(2 * index + 1)) }
        // One each was delivered, one waits, and the third has no room.
        #expect(publisher.received().count == 2)
        for index in 0..<many - 1 { client.requestN(1, stream: UInt32(2 * index + 1)) }
        #expect(publisher.received().isEmpty)
        client.requestN(1, stream: UInt32(2 * many - 1))
        #expect(publisher.received().count == 1)
    }
}
