// Subscriptions that begin at a time, over each protocol and across lost connections.

import Core
import Streams
import Testing

@testable import Forebay

@Suite struct SinceTests {
    /// Publishes messages with numbers as bytes. No two have the same timestamp.
    private func publish(_ numbers: Range<Int>, to topic: Topic) async throws {
        for number in numbers {
            try await topic.publish(bytes(number))
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    private func taken(_ count: Int, _ topic: Topic, _ replay: Replay) async throws -> [Message] {
        var taken: [Message] = []
        var iterator = topic.messages(replay: replay).makeAsyncIterator()
        while taken.count < count, let message = try await iterator.next() { taken.append(message) }
        return taken
    }

    @Test(arguments: Wire.allCases) func aSubscriptionBeginsAtATime(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topic = client.topic("t")
            try await publish(0..<6, to: topic)
            let all = try await taken(6, topic, .all)
            #expect(try await taken(3, topic, .since(nanoseconds: all[3].timestamp)) == Array(all[3...]))
            #expect(try await taken(2, topic, .since(nanoseconds: all[3].timestamp + 1)) == Array(all[4...]))
            for replay in [
                Replay.since(nanoseconds: 0), .since(nanoseconds: .min), .past(.seconds(3600)),
                .past(.seconds(Int64.max)),
            ] {
                #expect(try await taken(6, topic, replay) == all)
            }
            for replay in [Replay.since(nanoseconds: .max), .past(.zero), .past(.seconds(-1))] {
                let next = try await topic.messages(replay: replay).subscribed()
                let published = try await topic.publish(bytes(9))
                var iterator = next.makeAsyncIterator()
                #expect(try await iterator.next()?.sequence == published.sequence)
            }
            await client.close()
        }
    }

    /// After the first message the subscription continues by sequence, and does not begin at the time again.
    @Test(arguments: Wire.allCases, [Replay.past(.seconds(3600)), .since(nanoseconds: 1)])
    func overACutNetworkNothingIsLostOrDoubled(_ wire: Wire, _ replay: Replay) async throws {
        let broker = try TestBroker()
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire))
            let consumer = try await ForebayClient.connect(proxy.url(wire), quick)
            try await publish(0..<3, to: producer.topic("t"))
            var iterator = try await consumer.topic("t").messages(replay: replay).subscribed().makeAsyncIterator()
            for round in 1...3 {
                await proxy.cut()
                proxy.heal()
                try await publish(3 * round..<3 * round + 3, to: producer.topic("t"))
                for number in 3 * (round - 1)..<3 * round {
                    let message = try #require(try await iterator.next())
                    #expect(message.number == number && message.gap == nil)
                }
            }
            await producer.close()
            await consumer.close()
        }
    }
}
