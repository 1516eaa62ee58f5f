// A program's requests to its client reach the broker in the order in which they were made, and a subscription can be
// awaited.

import Streams
import Testing

@testable import Forebay

@Suite struct ProgramOrderTests {
    /// The number of rounds, each on a separate topic: chance decides how much the client's thread finds at a time.
    private static let rounds = 200

    @Test(arguments: Wire.allCases) func aSubscriptionComesBeforeWhatIsPublishedAfterIt(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            var lost = 0
            for round in 0..<Self.rounds {
                let topic = client.topic("t\(round)")
                var iterator = topic.messages().makeAsyncIterator()
                try await topic.publish("first")
                try await topic.publish("second")
                if try await iterator.next()?.text != "first" { lost += 1 }
            }
            #expect(lost == 0)
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func aPublisherComesBeforeWhatIsPublishedAfterIt(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            for round in 0..<Self.rounds {
                let topic = client.topic("t\(round)")
                let publication = [bytes(1)].publisher.publish(to: topic)
                let receipt = try await topic.publish("2")
                #expect(receipt.sequence == 2)
                #expect(try await publication.result() == 1)
            }
            await client.close()
        }
    }

    /// The other client's publishes take another path through the broker, which has two threads.
    @Test(arguments: Wire.allCases) func aSubscriptionThatWasWaitedForMissesNothing(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let others = [
                try await ForebayClient.connect(broker.url(wire)), try await ForebayClient.connect(broker.url(wire)),
            ]
            for round in 0..<Self.rounds {
                let messages = try await client.topic("t\(round)").messages().subscribed()
                try await others[round % 2].topic("t\(round)").publish("first")
                var iterator = messages.makeAsyncIterator()
                #expect(try await iterator.next()?.sequence == 1)
            }
            await client.close()
            for other in others { await other.close() }
        }
    }

    @Test(arguments: Wire.allCases) func aSinkIsToldThatItIsSubscribed(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let (reported, feed) = AsyncStream.makeStream(of: String.self)
            let sink = client.topic("t").messages().onSubscribed { feed.yield("subscribed") }.sink(
                receiveCompletion: { _ in feed.yield("ended") }, receiveValue: { feed.yield($0.text) })
            var iterator = reported.makeAsyncIterator()
            #expect(await iterator.next() == "subscribed")
            try await client.topic("t").publish("first")
            #expect(await iterator.next() == "first")
            // A message that exists already confirms a subscription too, and each subscription is confirmed only once.
            let second = client.topic("t").messages(replay: .all).onSubscribed { feed.yield("subscribed") }.sink(
                receiveCompletion: { _ in feed.yield("ended") }, receiveValue: { feed.yield($0.text) })
            #expect(await iterator.next() == "subscribed")
            #expect(await iterator.next() == "first")
            sink.cancel()
            second.cancel()
            await client.close()
            feed.finish()
            #expect(await iterator.next() == nil)
        }
    }

    @Test(arguments: Wire.allCases) func waitingForASubscriptionEndsWithIt(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire), quick)
            let topic = client.topic("t")
            #expect(await error { _ = try await client.topic("a b").messages().subscribed() }?.code == .invalid)
            #expect(await error { _ = try await topic.messages(window: 0).subscribed() }?.code == .invalid)
            // Subscribing to a topic that has ended succeeds too.
            let done = client.topic("done")
            _ = try await [bytes(1)].publisher.publish(to: done, ending: .topic).result()
            var texts: [String] = []
            for try await message in try await done.messages(replay: .all).subscribed() { texts.append(message.text) }
            #expect(texts == ["1"])

            let cancelled = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                _ = try await topic.messages().subscribed()
            }
            await #expect(throws: CancellationError.self) { try await cancelled.value }
            while client.core.activityCount > 0 { await Task.yield() }
            await client.close()
            #expect(await error { _ = try await topic.messages().subscribed() } == .closedByUser)
        }
    }

    /// The broker goes away before it answers; the next broker is asked again.
    @Test func waitingForASubscriptionOutlastsAConnection() async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(.rsocket), quick)
            for round in 0..<5 {
                let topic = client.topic("t\(round)")
                async let messages = topic.messages().subscribed()
                try broker.restart()
                var iterator = try await messages.makeAsyncIterator()
                try await topic.publish("x")
                #expect(try await iterator.next()?.text == "x")
            }
            await client.close()
        }
    }
}
