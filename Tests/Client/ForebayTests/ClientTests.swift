// A client and a real broker: connecting, publishing, subscribing, and errors.

import Dispatch
import Streams
import Synchronization
import Testing

@testable import Forebay

@Suite struct ForebayClientTests {
    @Test(arguments: Wire.allCases) func whatIsPublishedIsDelivered(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topic = client.topic("orders")
            for number in 1...10 {
                let receipt = try await topic.publish("m\(number)")
                #expect(receipt.sequence == UInt64(number))
                #expect((receipt.epoch != nil) == (wire == .http))
            }
            var iterator = topic.messages(replay: .all).makeAsyncIterator()
            for number in 1...10 {
                let message = try #require(try await iterator.next())
                #expect(message.text == "m\(number)" && message.sequence == UInt64(number))
                #expect(message.epoch != 0 && message.timestamp > 0 && message.gap == nil)
            }
            await client.close()
            #expect(client.state == .closed(.closedByUser))
            await #expect(throws: ForebayError.closedByUser) { try await topic.publish("late") }
        }
    }

    @Test(arguments: Wire.allCases) func whatGoesWithAMessageIsDelivered(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let publisher = try await ForebayClient.connect(broker.url(wire))
            let headers = [(name: "b", value: "Grüße"), (name: "a", value: "")]
            let topic = publisher.topic("t")
            try await topic.publish("{}", contentType: "application/json", headers: headers)
            try await topic.publish("x", contentType: "made/up")
            try await topic.publish("y")
            for other in Wire.allCases {
                let subscriber = try await ForebayClient.connect(broker.url(other))
                var iterator = subscriber.topic("t").messages(replay: .all).makeAsyncIterator()
                let first = try #require(try await iterator.next())
                #expect(first.text == "{}" && first.contentType == "application/json")
                #expect(first.headers.sorted { $0.name > $1.name }.elementsEqual(headers, by: ==))
                #expect(try await iterator.next()?.contentType == "made/up")
                let last = try #require(try await iterator.next())
                #expect(last.contentType == nil && last.headers.isEmpty && last.metadata.isEmpty)
                await subscriber.close()
            }
            let failure = await error { try await topic.publish("x", contentType: "é") }
            #expect(failure?.code == .invalid)
            await publisher.close()
        }
    }

    /// The result of `messages` is a publisher and an asynchronous sequence: both have `map`, and the context decides.
    @Test func operatorsOfBothKindsApply() async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(.rsocket))
            let topic = client.topic("t")
            for number in 0..<3 { try await topic.publish(bytes(number)) }
            let texts: AnyPublisher<String, ForebayError> =
                topic.messages(replay: .all).map { $0.text }.prefix(3).collect().map { $0.joined() }
                .eraseToAnyPublisher()
            var iterator = texts.values.makeAsyncIterator()
            #expect(try await iterator.next() == "012")
            var joined = ""
            for try await text in topic.messages(replay: .all).map({ $0.text }).prefix(3) { joined += text }
            #expect(joined == "012")
            // The values of the publisher are the sequence itself.
            let values: TopicMessages = topic.messages(replay: .all).values
            for try await message in values where message.text == "2" { break }
            await client.close()
        }
    }

    /// No more than the window waits here, and the window is refilled as messages are taken.
    @Test(arguments: Wire.allCases) func anIterationAsksForItsWindow(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topic = client.topic("t")
            for number in 0..<100 { try await topic.publish(bytes(number)) }
            var iterator = topic.messages(replay: .all, window: 5).makeAsyncIterator()
            for number in 0..<100 { #expect(try await iterator.next()?.number == number) }
            await client.close()
            await #expect(throws: ForebayError.closedByUser) { while try await iterator.next() != nil {} }
            #expect(try await iterator.next() == nil, "a failure is thrown once")
        }
    }

    @Test(arguments: Wire.allCases) func demandIsForwardedAndNotInvented(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topic = client.topic("t")
            for number in 0..<20 { try await topic.publish(bytes(number)) }
            let (values, feed) = AsyncStream.makeStream(of: Int.self)
            let sink = DemandSink<Message, ForebayError>(
                demand: 3, receiveCompletion: { _ in feed.finish() }, receiveValue: { feed.yield($0.number) })
            topic.messages(replay: .all).subscribe(sink)
            var iterator = values.makeAsyncIterator()
            for number in 0..<3 { #expect(await iterator.next() == number) }
            // These messages are requested by another subscription: if the sink had requested more, its extra messages
            // would have arrived earlier.
            #expect(try await topic.messages(replay: .all).prefix(20).reduce(0) { sum, _ in sum + 1 } == 20)
            sink.increaseDemand(2)
            for number in 3..<5 { #expect(await iterator.next() == number) }
            sink.cancel()
            await client.close()
            feed.finish()
            #expect(await iterator.next() == nil, "nothing comes after cancel")
        }
    }

    /// What a slow sink on another queue has not taken stays at the broker.
    @Test(arguments: Wire.allCases) func aSlowQueueHoldsNoMoreThanTheWindow(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topic = client.topic("t")
            for number in 0..<500 { try await topic.publish(bytes(number)) }
            let queue = DispatchQueue(label: "slow")
            queue.suspend()
            let (values, feed) = AsyncStream.makeStream(of: Int.self)
            let arrived = Atomic<Int>(0)
            let sink = topic.messages(replay: .all, window: 16)
                .handleEvents(receiveOutput: { _ in arrived.add(1, ordering: .relaxed) })
                .receive(on: queue)
                .sink(receiveCompletion: { _ in feed.finish() }, receiveValue: { feed.yield($0.number) })
            // These messages are requested later: if the sink had requested more, its extra messages would have arrived
            // earlier.
            #expect(try await topic.messages(replay: .all).prefix(500).reduce(0) { sum, _ in sum + 1 } == 500)
            let held = arrived.load(ordering: .relaxed)
            #expect(held == 16)
            queue.resume()
            var iterator = values.makeAsyncIterator()
            for number in 0..<500 { #expect(await iterator.next() == number) }
            sink.cancel()
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func anEndIsTold(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let done = client.topic("done")
            let total = try await (0..<5).map(bytes).publisher.publish(to: done, ending: .topic).result()
            #expect(total == 5)
            var numbers: [Int] = []
            for try await message in done.messages(replay: .all) { numbers.append(message.number) }
            #expect(numbers == Array(0..<5))
            // Ending a topic without sending a message requires that the topic exists.
            let empty = client.topic("empty")
            let nothing = [[UInt8]]().publisher
            #expect(await error { _ = try await nothing.publish(to: empty, ending: .topic).result() } != nil)
            var iterator = empty.messages().makeAsyncIterator()
            #expect(try await nothing.publish(to: empty, ending: .topic).result() == 0)
            #expect(try await iterator.next() == nil)
            #expect(try await nothing.publish(to: client.topic("none")).result() == 0)

            let failing = client.topic("failing")
            var failed = failing.messages().makeAsyncIterator()
            let subject = PassthroughSubject<[UInt8], Boom>()
            let publication = subject.publish(to: failing, ending: .topic)
            subject.send(completion: .failure(Boom()))
            let failure = await error { _ = try await publication.result() }
            #expect(failure?.code == .upstreamFailed)
            let reported = await error { _ = try await failed.next() }
            #expect(reported?.code == .topicFailed)
            await client.close()
        }
    }

    /// The client ends the topic with a call, which takes a while; notifications received in the meantime change
    /// nothing.
    @Test(arguments: Wire.allCases) func aPublisherThatGoesOnAfterItsFailureIsNotWaitedFor(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topic = client.topic("failing")
            var iterator = topic.messages().makeAsyncIterator()
            let publisher = Restless()
            let publication = publisher.publish(to: topic, ending: .topic)
            let restless = Task { await publisher.failAndGoOn() }
            #expect(await error { _ = try await publication.result() }?.code == .upstreamFailed)
            #expect(await error { _ = try await iterator.next() }?.code == .topicFailed)
            restless.cancel()
            await restless.value
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func whatIsWrongIsToldByTypedErrors(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            #expect(await error { try await client.topic("a b").publish("x") }?.code == .invalid)
            #expect(await error { for try await _ in client.topic("a..b").messages() {} }?.code == .invalid)
            let long = String(repeating: "a", count: 1000)
            #expect(await error { for try await _ in client.topic(long).messages() {} }?.code == .invalid)
            await client.close()
            #expect(await error { for try await _ in client.topic("t").messages() {} } == .closedByUser)
            #expect(await error { _ = try await ForebayClient.connect("ftp://x") }?.code == .badAddress)
            #expect(await error { _ = try await ForebayClient.connect("rsocket://127.0.0.1:1") }?.code == .notConnected)
            let other: Wire = wire == .http ? .rsocket : .http
            let wrong = "\(wire)://127.0.0.1:\(broker.port(other))"
            #expect(await error { _ = try await ForebayClient.connect(wrong) }?.code == .notConnected)
        }
    }

    @Test(arguments: Wire.allCases) func cancellingEndsTheWait(_ wire: Wire) async throws {
        let broker = try TestBroker()
        try await within {
            let client = try await ForebayClient.connect(broker.url(wire))
            let topic = client.topic("t")
            // A `block` subscription that takes nothing beyond its first message leaves no room.
            let sink = DemandSink<Message, ForebayError>(demand: 1, receiveCompletion: { _ in }, receiveValue: { _ in })
            topic.messages(buffer: 1, overflow: .block).subscribe(sink)
            let waiting = Task { for _ in 0..<10 { try await topic.publish("x") } }
            let reading = Task { for try await _ in client.topic("quiet").messages() {} }
            while client.core.activityCount < 3 { await Task.yield() }
            reading.cancel()
            try await reading.value
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            sink.cancel()
            // Nothing is left in progress.
            while client.core.activityCount > 0 { await Task.yield() }
            await client.close()
        }
    }

    @Test func limitsHold() async throws {
        let broker = try TestBroker()
        try await within {
            var options = quick
            options.limits.activities = 2
            options.limits.publishedBytes = 10
            let client = try await ForebayClient.connect(broker.url(.rsocket), options)
            // Unlike after `.busy`, waiting would not make room for the message.
            let large = await error { try await client.topic("t").publish("more than 10 bytes") }
            #expect(large?.code == .messageTooLarge && large?.message.contains("publishedBytes allows 10.") == true)
            // The blocked topic keeps a publish of 6 bytes in progress, which leaves no room for another.
            options.limits.activities = 4
            let blocked = try await ForebayClient.connect(broker.url(.rsocket), options)
            let sink = DemandSink<Message, ForebayError>(demand: 1, receiveCompletion: { _ in }, receiveValue: { _ in })
            blocked.topic("b").messages(buffer: 1, overflow: .block).subscribe(sink)
            let waiting = Task { for _ in 0..<10 { try await blocked.topic("b").publish("6bytes") } }
            var second: ForebayError?
            while second == nil { second = await error { try await blocked.topic("c").publish("6bytes") } }
            #expect(second?.code == .busy && second?.message.contains("publishedBytes allows 10;") == true)
            waiting.cancel()
            await blocked.close()
            var one = client.topic("t").messages().makeAsyncIterator()
            var two = client.topic("t").messages().makeAsyncIterator()
            let third = await error { try await client.topic("t").publish("x") }
            #expect(third?.code == .busy && third?.message.contains("activities allows 2;") == true)
            await client.close()
            _ = try? await one.next()
            _ = try? await two.next()
        }
    }
}

struct Boom: Error {}

/// A publisher that fails, and then continues to send values.
private final class Restless: Publisher, @unchecked Sendable {
    typealias Output = [UInt8]
    typealias Failure = Boom

    /// Set before the publisher fails.
    private var subscriber: (any Subscriber<[UInt8], Boom>)?

    func receive<S: Subscriber>(subscriber: S) where S.Input == [UInt8], S.Failure == Boom {
        self.subscriber = subscriber
        subscriber.receive(subscription: Subscriptions.empty)
    }

    /// Fails, and then sends values until the task is cancelled.
    func failAndGoOn() async {
        guard let subscriber else { return }
        subscriber.receive(completion: .failure(Boom()))
        while !Task.isCancelled {
            _ = subscriber.receive([])
            await Task.yield()
        }
    }
}

/// The typed error with which something ends.
func error(_ body: () async throws -> Void) async -> ForebayError? {
    do {
        try await body()
        return nil
    } catch {
        return error as? ForebayError
    }
}
