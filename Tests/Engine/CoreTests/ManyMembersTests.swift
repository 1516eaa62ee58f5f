// Views with many subscriptions: an action of one must not require a visit to all others, and work that concerns all of
// them is done in slices.

import Replay
import Testing

@testable import Core

@Suite struct ManyMembersTests {
    private let many = 512

    private func crowd(_ route: String, _ broker: TestBroker, n: UInt32 = 1) -> TestClient {
        let client = broker.connect()
        for index in 0..<many { client.subscribe(route, n: n, stream: UInt32(2 * index + 1)) }
        return client
    }

    @Test func newMessagesAreToldOfAtOnce() {
        let broker = TestBroker()
        let client = crowd("t", broker)
        let topic = broker.shards[0].topics["t"]!
        #expect(topic.views.subscriptions == many)
        let publisher = broker.connect()
        publisher.publish("t", "a", stream: 1)
        #expect(client.received().count == many)
        publisher.publish("t", "b", stream: 3)
        #expect(topic.views.delivered == UInt64(many))
        #expect(topic.views.links[0].progress.seen == topic.log.end)
        #expect(client.received().isEmpty)
        // No subscription needs the first message any more; the second is needed until the last subscription has it.
        for index in 0..<many {
            #expect(topic.views.links[0].progress.needed == SequenceNumber(2))
            client.requestN(1, stream: UInt32(2 * index + 1))
        }
        #expect(client.received().count == many)
        #expect(topic.views.links[0].progress.needed == topic.log.end)
    }

    @Test func publishersGoOnAsSoonAsTheLastOfManyBlockersAsks() {
        let broker = TestBroker()
        let client = crowd("t?overflow=block&buffer=1", broker)
        let publisher = broker.connect()
        for index in 0..<3 { publisher.publish("t", "\(index)", stream: UInt32(2 * index + 1)) }
        // One message was delivered to each, one waits, and there is no room for the third.
        #expect(publisher.received().count == 2)
        for index in 0..<many - 1 { client.requestN(1, stream: UInt32(2 * index + 1)) }
        #expect(publisher.received().isEmpty)
        client.requestN(1, stream: UInt32(2 * many - 1))
        #expect(publisher.received().count == 1)
    }

    /// Each slice brings ten members up to the end. A member that leaves moves another into its slot, new messages
    /// arrive in between, and members join: each receives every message once, in order.
    @Test(arguments: [1, 2]) func aViewAdvancesInSlices(shards: Int) {
        let broker = TestBroker(shards: shards)
        for shard in broker.shards { shard.slice = 10 }
        var random = LedgerRandom(state: 7)
        let client = broker.connect(shards - 1)
        let publisher = broker.connect()
        var joined: [UInt32: Int] = [:]
        var next: UInt32 = 1
        var published = 0
        broker.chaos = LedgerRandom(state: 11)
        for _ in 0..<2000 {
            switch random.next(8) {
            case 0...2:
                client.subscribe("t", stream: next)
                joined[next] = published
                next += 2
            case 3:
                if let stream = joined.keys.sorted().dropFirst(random.next(joined.count + 1)).first {
                    client.cancel(stream: stream)
                    joined[stream] = nil
                }
            case 4...5:
                publisher.fireAndForget("t", "m\(published)", stream: UInt32(2 * published + 1))
                published += 1
            default: broker.run()
            }
        }
        broker.chaos = nil
        broker.runAll()
        publisher.fireAndForget("t", "m\(published)", stream: UInt32(2 * published + 1))
        published += 1
        var got: [UInt32: [Int]] = [:]
        for line in client.received() where line.contains(":m") {
            let parts = line.split(separator: ":")
            got[UInt32(parts[0])!, default: []].append(Int(parts[1].dropFirst())!)
        }
        for stream in joined.keys {
            let messages = got[stream] ?? []
            #expect(messages == Array((messages.first ?? 0)..<published), "stream \(stream)")
            // A join crosses to the owner's shard, and does not include earlier messages.
            #expect(shards == 2 || messages.count == published - joined[stream]!)
        }
        let topic = broker.shards.compactMap { $0.topics["t"] }[0]
        #expect(topic.views.links[0].progress.seen == topic.log.end && topic.views.subscriptions == joined.count)
    }
}
