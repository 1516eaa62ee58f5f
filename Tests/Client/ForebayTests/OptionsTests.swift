// Options and arguments out of bounds: nothing traps or hangs, and impossible requests fail with an error.

import Core
import EventLoop
import Glibc
import Streams
import Testing

@testable import Forebay

@Suite struct OptionsTests {
    @Test(arguments: Wire.allCases) func figuresBeyondTheirBoundsAreTakenForTheNearest(_ wire: Wire) async throws {
        let broker = try TestBroker()
        let changes: [@Sendable (inout ForebayOptions) -> Void] = [
            { $0.silence = .seconds(Int64.max) }, { $0.silence = .seconds(86_400 * 30) },
            { $0.connectTimeout = .seconds(Int64.max) }, { $0.limits.activities = .max },
            { $0.limits.publishedBytes = .max }, { $0.limits.message = .max }, { $0.limits.output = .max },
            { $0.limits.output = .min }, { $0.reconnect = ReconnectPolicy(first: .seconds(-1), longest: .seconds(-1)) },
        ]
        try await within {
            for (index, change) in changes.enumerated() {
                var options = ForebayOptions()
                change(&options)
                let client = try await ForebayClient.connect(broker.url(wire), options)
                let topic = client.topic("t\(index)")
                try await topic.publish(bytes(0))
                #expect(try await (1...100).publisher.map(bytes).publish(to: topic, ending: .topic).result() == 100)
                var next = 0
                for try await message in topic.messages(replay: .all, window: 2) {
                    #expect(message.number == next)
                    next += 1
                }
                #expect(next == 101)
                await client.close()
            }
        }
    }

    @Test(arguments: Wire.allCases, [Int.min, -1, 0]) func theLeastLimitLetsAnswersThrough(
        _ wire: Wire, _ limit: Int
    ) async throws {
        let broker = try TestBroker()
        try await within {
            var options = ForebayOptions()
            options.limits.message = limit
            let client = try await ForebayClient.connect(broker.url(wire), options)
            try await client.topic("t").publish([UInt8](repeating: 1, count: 4 << 10))
            let failure = await error { for try await _ in client.topic("t").messages(replay: .all) {} }
            #expect(failure?.code == .messageTooLarge)
            try await client.topic("t").publish("the client goes on")
            await client.close()
        }
    }

    /// The message is fragmented and larger than one read: formerly the connection was dropped and reopened forever.
    @Test(arguments: Wire.allCases) func aLargeMessageFailsItsSubscriptionAlone(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            var options = quick
            options.limits.message = 4 << 10
            options.reconnect.attempts = 0
            let client = try await ForebayClient.connect(broker.url(wire), options)
            let publisher = try await ForebayClient.connect(broker.url(wire))
            try await publisher.topic("t").publish([UInt8](repeating: 1, count: 1 << 20))
            let failure = await error { for try await _ in client.topic("t").messages(replay: .all) {} }
            #expect(failure?.code == .messageTooLarge)
            #expect(client.state == .connected)
            await publisher.close()
            await client.close()
        }
    }

    /// Regression: a separate probe for each subscription used half of the streams.
    @Test(arguments: Wire.allCases) func asManySubscriptionsAreWaitedForAsTheClientCarries(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let count = wire == .http ? 984 : 1024
            let subscribed = try await withThrowingTaskGroup(of: SubscribedMessages.self) { group in
                for number in 0..<count {
                    group.addTask { try await client.topic("t\(number % 10)").messages().subscribed() }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(subscribed.count == count)
            let publisher = try await ForebayClient.connect(broker.url(wire))
            for number in 0..<10 { try await publisher.topic("t\(number)").publish("x") }
            for messages in subscribed {
                for try await message in messages {
                    #expect(message.text == "x")
                    break
                }
            }
            await publisher.close()
            await client.close()
        }
    }

    /// Over HTTP/2 such a subscription formerly waited forever for a stream, without an error.
    @Test func aSubscriptionThatTheConnectionCannotCarryFails() async throws {
        var limits = Limits()
        limits.streamsPerConnection = 40
        let broker = try TestBroker(limits: limits)
        try await within {
            let client = try await ForebayClient.connect(broker.url(.http))
            var iterators: [TopicMessages.AsyncIterator] = []
            for _ in 0..<30 { iterators.append(client.topic("t").messages().makeAsyncIterator()) }
            let failure = await error { _ = try await client.topic("t").messages().subscribed() }
            #expect(failure?.code == .busy && failure?.message.contains("connect another client") == true)
            let channel = await error { _ = try await ["x"].publisher.publish(to: client.topic("t")).result() }
            #expect(channel?.code == .busy)
            // A publish uses one of the reserved streams, and each subscription that ends frees a stream.
            try await client.topic("t").publish("x")
            iterators.removeLast(2)
            while client.core.activityCount > 28 { await Task.yield() }
            _ = try await client.topic("t").messages().subscribed()
            _ = consume iterators
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func whatASubscriptionCannotBeIsInvalid(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topic = client.topic("t")
            for messages in [
                topic.messages(buffer: 0), topic.messages(buffer: .max),
                topic.messages(replay: .from(sequence: 0, epoch: nil)),
                topic.messages(replay: .from(sequence: 0, epoch: 1)), topic.messages(window: 0),
                topic.messages(window: .min), topic.messages(window: .max), client.topic("").messages(),
            ] {
                let failure = await error { for try await _ in messages {} }
                #expect(failure?.code == .invalid, "\(messages.options) \(messages.window)")
            }
            let failure = await error { try await client.topic("").publish("x") }
            #expect(failure?.code == .invalid && failure?.message.contains("empty") == true)
            let long = [(name: String(repeating: "n", count: 1 << 16), value: "")]
            let named = await error { try await topic.publish("x", headers: long) }
            #expect(named?.code == .invalid && named?.message.contains("65535") == true)
            await client.close()
        }
    }

    /// The listener's queue is full, so a connection is neither accepted nor refused.
    @Test func connectingTakesNoLongerThanItMay() async throws {
        let listener = try Socket.listen(on: Endpoint(host: "127.0.0.1", port: 0).resolve()[0])
        defer { close(listener) }
        #expect(listen(listener, 0) == 0)
        let endpoint = Endpoint(host: "127.0.0.1", port: Socket.localAddress(listener)!.port)
        var held: [Int32] = []
        defer { for socket in held { close(socket) } }
        while let socket = try? Socket.connect(to: endpoint, timeout: 100_000_000) { held.append(socket) }
        try await within {
            var options = ForebayOptions()
            options.connectTimeout = .milliseconds(200)
            let start = ContinuousClock.now
            let failure = await error { _ = try await ForebayClient.connect("rsocket://\(endpoint)", options) }
            #expect(failure?.code == .notConnected && failure?.message.contains("0.2 seconds") == true)
            // Formerly the limit was ten seconds, whatever the options.
            #expect(start.duration(to: .now) < .seconds(9))
        }
    }
}
