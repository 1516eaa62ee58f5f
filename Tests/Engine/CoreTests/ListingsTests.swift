// What the broker's lists report about clients and what they received.

import Bytes
import RSocket
import Testing

@testable import Core

@Suite struct ListingsTests {
    /// The figure `key` in each row of the list `name`; nil for a row without one.
    private func list(_ name: String, _ key: String, _ client: TestClient, stream: UInt32) -> [Int?] {
        _ = client.received()
        client.subscribe(name, stream: stream)
        return client.received().filter { $0.contains("{") }.map { row in
            guard let start = row.firstRange(of: "\"\(key)\":")?.upperBound else { return nil }
            return Int(row[start...].prefix { $0.isNumber })
        }
    }

    @Test(arguments: [1, 2]) func handedOverMessagesAreCountedOneByOne(shards: Int) {
        let broker = TestBroker(shards: shards)
        let (reader, subscriber) = (broker.connect(), broker.connect(shards - 1))
        for n in 0..<7 { reader.publish("a", "\(n)", stream: UInt32(1 + 2 * n)) }
        // The messages are sent in one piece.
        subscriber.subscribe("a?replay=all", n: 5)
        broker.advance(seconds: 0.5)
        #expect(list("$SYS.topics", "delivered", reader, stream: 101).contains(5))
        #expect(list("$SYS.subscriptions", "delivered", reader, stream: 103).contains(5))
        subscriber.cancel()
        broker.advance(seconds: 0.5)
        #expect(list("$SYS.topics", "delivered", reader, stream: 105).contains(5))
    }

    /// No second has passed, and nothing has happened that causes an event.
    @Test(arguments: [1, 2], ["$SYS.events", "$SYS.stats"])
    func theBrokersOwnTopicsExistFromTheStart(shards: Int, name: String) {
        let broker = TestBroker(shards: shards)
        let client = broker.connect()
        client.publish("$SYS.topic.info?name=\(name)", "", stream: 101)
        let reported = client.received()
        #expect(reported.contains { $0.contains("\"name\":\"\(name)\"") }, "\(reported)")
        client.publish("$SYS.topic.info?name=$SYS.others", "", stream: 103)
        #expect(client.received().contains { $0.contains("not-found: There is no topic") })
    }

    @Test func aSubscriptionThatHasEndedIsNoneOfItsConnection() {
        let broker = TestBroker()
        let (reader, subscriber) = (broker.connect(), broker.connect())
        for stream in [1, 3, 5] as [UInt32] { subscriber.subscribe("a", stream: stream) }
        #expect(list("$SYS.connections", "subscriptions", reader, stream: 101).contains(3))
        subscriber.cancel(stream: 3)
        #expect(list("$SYS.connections", "subscriptions", reader, stream: 103).contains(2))
        reader.publish("$SYS.topic.complete?name=a", "", stream: 105)
        // Apart from those subscriptions there is only the list itself.
        let left = list("$SYS.connections", "subscriptions", reader, stream: 107)
        #expect(left.count == 2 && left.allSatisfy { $0 ?? 9 <= 1 }, "\(left)")
    }
}
