// Reconnecting: the broker killed and restarted, and the network cut and restored, under subscriptions and publishes.

import Core
import Glibc
import Streams
import Synchronization
import Testing

@testable import Forebay

@Suite struct ReconnectTests {
    /// Everything in a topic is retained, so anything missing was lost by the client.
    private func roomyBroker() throws -> TestBroker {
        var limits = Limits()
        limits.retain = 100_000
        return try TestBroker(limits: limits)
    }

    @Test(arguments: Wire.allCases) func overACutNetworkNothingIsLostOrDoubled(_ wire: Wire) async throws {
        let broker = try roomyBroker()
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire))
            let consumer = try await ForebayClient.connect(proxy.url(wire), quick)
            let publication = (0..<3000).publisher.map(bytes).publish(to: producer.topic("t"), ending: .topic)
            var next = 0
            for try await message in consumer.topic("t").messages(replay: .all, buffer: 100_000, window: 16) {
                #expect(message.number == next && message.sequence == UInt64(next + 1) && message.gap == nil)
                next += 1
                if next % 500 == 250 {
                    await proxy.cut()
                    proxy.heal()
                }
            }
            #expect(next == 3000)
            #expect(proxy.connections.load(ordering: .relaxed) >= 7)
            #expect(try await publication.result() == 3000)
            await producer.close()
            await consumer.close()
        }
    }

    @Test(arguments: Wire.allCases) func unlimitedDemandIsCarriedOver(_ wire: Wire) async throws {
        let broker = try roomyBroker()
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire))
            let consumer = try await ForebayClient.connect(proxy.url(wire), quick)
            let (values, feed) = AsyncStream.makeStream(of: Message.self)
            let subscription = consumer.topic("t").messages(replay: .all, buffer: 100_000)
                .sink(receiveCompletion: { _ in feed.finish() }, receiveValue: { feed.yield($0) })
            var iterator = values.makeAsyncIterator()
            var next = 0
            for round in 1...3 {
                try await producer.topic("t").publish(contentsOf: AsyncNumbers(next..<round * 200))
                while next < round * 200 {
                    let message = try #require(await iterator.next())
                    #expect(message.number == next && message.gap == nil)
                    next += 1
                }
                await proxy.cut()
                proxy.heal()
            }
            subscription.cancel()
            await producer.close()
            await consumer.close()
        }
    }

    @Test(arguments: Wire.allCases) func whatWasEvictedMeanwhileIsTold(_ wire: Wire) async throws {
        var limits = Limits()
        limits.retain = 10
        let broker = try TestBroker(limits: limits)
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire))
            let consumer = try await ForebayClient.connect(proxy.url(wire), quick)
            let topic = producer.topic("t")
            var iterator = consumer.topic("t").messages(replay: .all, window: 4).makeAsyncIterator()
            for number in 0..<5 {
                try await topic.publish(bytes(number))
                #expect(try await iterator.next()?.number == number)
            }
            await proxy.cut()
            for number in 5..<105 { try await topic.publish(bytes(number)) }
            proxy.heal()
            let message = try #require(try await iterator.next())
            #expect(message.number == 95 && message.gap == Gap(.dropped, lost: 90))
            await producer.close()
            await consumer.close()
        }
    }

    @Test(arguments: Wire.allCases) func afterAKillTheGapIsTold(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire), quick)
            let topic = client.topic("t")
            var iterator = topic.messages(replay: .all).makeAsyncIterator()
            var early = client.topic("quiet").messages().makeAsyncIterator()
            for number in 0..<5 { try await topic.publish(bytes(number)) }
            var last: Message?
            for number in 0..<5 {
                last = try await iterator.next()
                #expect(last?.number == number)
            }
            try broker.restart()
            for number in 5..<8 { try await topic.publish(bytes(number)) }
            let epoch = try #require(last?.epoch)
            let message = try #require(try await iterator.next())
            #expect(message.number == 5 && message.sequence == 1 && message.epoch != epoch)
            #expect(message.gap == Gap(.newEpoch(previous: epoch), lost: nil))
            for number in 6..<8 {
                let message = try await iterator.next()
                #expect(message?.number == number && message?.gap == nil)
            }
            // If no message has arrived, the epoch is known from the opening.
            try await client.topic("quiet").publish("x")
            guard case .newEpoch = try await early.next()?.gap?.cause else {
                Issue.record("the restart was not reported")
                return
            }
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func anUnansweredPublishFailsOrIsRepeated(_ wire: Wire) async throws {
        let broker = try TestBroker()
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let consumer = try await ForebayClient.connect(broker.url(wire))
            let slow = DemandSink<Message, ForebayError>(demand: 1, receiveCompletion: { _ in }, receiveValue: { _ in })
            consumer.topic("t").messages(buffer: 1, overflow: .block).subscribe(slow)
            var options = quick
            options.repeatsPublishes = false
            let once = try await ForebayClient.connect(proxy.url(wire), options)
            options.repeatsPublishes = true
            let again = try await ForebayClient.connect(proxy.url(wire), options)
            // The first few publishes find room; then one from each client must wait.
            let first = Task { for _ in 0..<5 { try await once.topic("t").publish("1") } }
            let second = Task { for _ in 0..<5 { try await again.topic("t").publish("2") } }
            try await reached(broker, parked: 2)
            await proxy.cut()
            #expect(await error { _ = try await first.value }?.code == .outcomeUnknown)
            proxy.heal()
            try await reached(broker, parked: 1)
            slow.increaseDemand(.unlimited)
            try await second.value
            for client in [once, again, consumer] { await client.close() }
        }
    }

    /// Waits until `parked` publishes to the topic are parked.
    private func reached(_ broker: TestBroker, parked: Int) async throws {
        while try !broker.describe("t").contains("\"parked\":\(parked)") { await Task.yield() }
    }

    @Test(arguments: Wire.allCases) func aPublicationGoesOnOverCuts(_ wire: Wire) async throws {
        let broker = try roomyBroker()
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(proxy.url(wire), quick)
            let consumer = try await ForebayClient.connect(broker.url(wire))
            let publication = (0..<3000).publisher.map(bytes).publish(to: producer.topic("t"), ending: .channel)
            var (next, count) = (0, 0)
            var messages = consumer.topic("t").messages(replay: .all, overflow: .block).makeAsyncIterator()
            // The topic continues: it is unknown whether a channel that was cut at its end had ended the topic.
            while next < 3000, let message = try await messages.next() {
                #expect(message.number <= next, "nothing is skipped")
                next = max(next, message.number + 1)
                count += 1
                if count % 500 == 250 {
                    await proxy.cut()
                    proxy.heal()
                }
            }
            #expect(next == 3000 && count >= 3000)
            #expect(try await publication.result() == 3000)
            await producer.close()
            await consumer.close()
        }
    }

    /// The broker has completed the topic, and the connection is lost before the confirmation: a repeated attempt is
    /// rejected, although the first was accepted.
    @Test(arguments: Wire.allCases) func anEndThatWasNotHeardOfIsUncertain(_ wire: Wire) async throws {
        let broker = try roomyBroker()
        let proxy = try Proxy(to: broker.port(wire))
        try await within {
            let producer = try await ForebayClient.connect(proxy.url(wire), quick)
            proxy.deafen()
            let publication = (0..<1).publisher.map(bytes).publish(to: producer.topic("t"), ending: .topic)
            while (try? broker.describe("t").contains("\"completed\"")) != true { await Task.yield() }
            await proxy.cut()
            proxy.heal()
            #expect(await error { _ = try await publication.result() }?.code == .outcomeUnknown)
            await producer.close()
        }
    }

    /// Formerly the client read everything that had arrived before it sent a keepalive, and lost the connection again
    /// and again.
    @Test(arguments: Wire.allCases) func aSlowSubscriberKeepsTheConnection(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            var options = quick
            options.silence = .seconds(2)
            let client = try await ForebayClient.connect(broker.url(wire), options)
            let topic = client.topic("t")
            _ = try await (1...60).publisher.map(bytes).publish(to: topic, ending: .topic).result()
            let losses = Guarded(0)
            let watch = client.states.sink { state in
                if case .reconnecting = state { losses.withLock { $0 += 1 } }
            }
            let (values, feed) = AsyncStream.makeStream(of: Int.self)
            let slow = topic.messages(replay: .all)
                .sink(
                    receiveCompletion: { _ in feed.finish() },
                    receiveValue: { message in
                        // Three seconds in all, longer than the broker tolerates silence.
                        usleep(50_000)
                        feed.yield(message.number)
                    })
            var next = 1
            for await number in values {
                #expect(number == next)
                next += 1
            }
            #expect(next == 61 && losses.withLock { $0 } == 0)
            slow.cancel()
            watch.cancel()
            await client.close()
        }
    }

    @Test func statesAreToldAndAttemptsAreCounted() async throws {
        let broker = try TestBroker()
        let proxy = try Proxy(to: broker.port(.rsocket))
        try await within {
            var options = quick
            options.reconnect.attempts = 3
            let client = try await ForebayClient.connect(proxy.url(.rsocket), options)
            let (values, feed) = AsyncStream.makeStream(of: ConnectionState.self)
            let watch = client.states.sink(
                receiveCompletion: { _ in feed.finish() }, receiveValue: { feed.yield($0) })
            var iterator = values.makeAsyncIterator()
            #expect(await iterator.next() == .connected)
            var messages = client.topic("t").messages().makeAsyncIterator()
            proxy.reset()
            guard case .reconnecting(let pause, _) = await iterator.next() else {
                Issue.record("it was not notified of the lost connection")
                return
            }
            #expect((.milliseconds(5)...(.milliseconds(10))).contains(pause))
            #expect(await iterator.next() == .connected)
            await proxy.cut()
            var attempts = 0
            while case .reconnecting = await iterator.next() { attempts += 1 }
            #expect(attempts == 3)
            #expect(await error { _ = try await messages.next() }?.code == .notConnected)
            #expect(await iterator.next() == nil)
            watch.cancel()
        }
    }
}

struct AsyncNumbers: AsyncSequence, Sendable {
    let range: Range<Int>

    init(_ range: Range<Int>) { self.range = range }

    func makeAsyncIterator() -> Iterator { Iterator(rest: range) }

    struct Iterator: AsyncIteratorProtocol {
        var rest: Range<Int>

        mutating func next() async -> [UInt8]? { rest.popFirst().map(bytes) }
    }
}
