// A broker that is asked to end: what it holds for its subscribers is delivered, and then the client waits for the next
// broker and continues there. This is the same over both protocols.

import Dispatch
import Streams
import Synchronization
import Testing

@testable import Forebay

@Suite(.serialized) struct ClientDrainTests {
    /// Blocks the client's thread at the first message until it is released.
    private final class Slow: Subscriber, @unchecked Sendable {
        typealias Input = Message
        typealias Failure = ForebayError

        private let gate = DispatchSemaphore(value: 0)
        private let numbers = Guarded<[Int]>([])
        private let isHeld = Atomic<Bool>(false)

        var taken: [Int] { numbers.withLock { $0 } }
        var hasBegun: Bool { isHeld.load(ordering: .sequentiallyConsistent) }

        func release() { gate.signal() }
        func receive(subscription: any Subscription) { subscription.request(.unlimited) }

        func receive(_ input: Message) -> Subscribers.Demand {
            isHeld.store(true, ordering: .sequentiallyConsistent)
            // Blocks only once: the gate stays open.
            gate.wait()
            gate.signal()
            numbers.withLock { $0.append(input.number) }
            return .none
        }

        func receive(completion: Subscribers.Completion<ForebayError>) {}
    }

    private func isSubscribed(_ topic: String, _ broker: Daemon) -> Bool {
        (try? describe(topic, port: broker.port(.rsocket)).contains("\"subscriptions\":1")) == true
    }

    /// More than the network holds waits at the broker when it is asked to end.
    @Test(arguments: Wire.allCases) func whatIsBufferedIsDeliveredBefore(_ wire: Wire) async throws {
        let broker = try Daemon(["--retain", "10"])
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire), quick)
            let consumer = try await ForebayClient.connect(broker.url(wire), quick)
            let slow = Slow()
            defer { slow.release() }
            consumer.topic("t").messages(buffer: 10_000).subscribe(slow)
            try await reached { isSubscribed("t", broker) }
            let topic = producer.topic("t")
            let filler = [UInt8](repeating: UInt8(ascii: "0"), count: 4096)
            for number in 0..<3000 { try await topic.publish(filler + bytes(number)) }
            try await reached { slow.hasBegun }
            broker.drain()
            // A client that holds nothing up is notified at once.
            try await reached { producer.state != .connected }
            slow.release()
            try await reached { slow.taken.count == 3000 }
            #expect(slow.taken == Array(0..<3000))
            #expect(try await broker.process.end() == 0)
            try await reached { if case .reconnecting = consumer.state { true } else { false } }
            await producer.close()
            await consumer.close()
        }
    }

    @Test(arguments: Wire.allCases) func allGoesOnWithTheNextBroker(_ wire: Wire) async throws {
        let broker = try Daemon()
        try await within {
            let producer = try await ForebayClient.connect(broker.url(wire), quick)
            let consumer = try await ForebayClient.connect(broker.url(wire), quick)
            let subject = PassthroughSubject<[UInt8], Never>()
            let buffered = subject.buffer(size: 100, prefetch: .keepFull, whenFull: .dropOldest)
            let publication = buffered.publish(to: producer.topic("t"))
            let readers = Reader.Form.allCases.map {
                Reader($0, consumer.topic("t"), retained: 1024, buffer: 1024)
            }
            // A publish that waits for room, because of a subscription that takes nothing.
            let full = DemandSink<Message, ForebayError>(demand: 1, receiveCompletion: { _ in }, receiveValue: { _ in })
            consumer.topic("full").messages(buffer: 1, overflow: .block).subscribe(full)
            try await reached { isSubscribed("full", broker) }
            let waiting = Task { for number in 0..<3 { try await producer.topic("full").publish(bytes(number)) } }
            for number in 0..<10 { subject.send(bytes(number)) }
            try await reached { readers.allSatisfy { $0.count(epoch: 0) == 10 } && publication.acknowledged == 10 }
            try await reached { try describe("full", port: broker.port(.rsocket)).contains("\"parked\":1") }
            broker.drain()
            #expect(try await broker.process.end() == 0)
            for number in 10..<20 { subject.send(bytes(number)) }
            try broker.start()
            try await reached { readers.allSatisfy { $0.count(epoch: 1) == 10 } && publication.acknowledged == 20 }
            full.increaseDemand(.unlimited)
            // The outcome of the waiting publish is known: it is not published twice, and causes no failure.
            try await waiting.value
            subject.send(completion: .finished)
            #expect(try await publication.result() == 20)
            for reader in readers {
                let seen = reader.seen
                #expect(seen.faults.prefix(3) == [], "\(reader.form)")
                #expect(reader.error == nil)
                #expect(seen.carried(0) == Array(0..<10) && seen.carried(1) == Array(10..<20))
                reader.cancel()
            }
            full.cancel()
            await producer.close()
            await consumer.close()
        }
    }

    /// Unacknowledged messages of the channel are reported by a typed error, or sent again, depending on the options.
    @Test(arguments: Wire.allCases, [false, true])
    func anUnansweredChannelFailsOrIsRepeated(_ wire: Wire, _ repeats: Bool) async throws {
        let broker = try Daemon()
        try await within {
            var options = quick
            options.repeatsPublishes = repeats
            let client = try await ForebayClient.connect(broker.url(wire), options)
            // No room: the first message of the channel is parked.
            let full = DemandSink<Message, ForebayError>(demand: 1, receiveCompletion: { _ in }, receiveValue: { _ in })
            let consumer = try await ForebayClient.connect(broker.url(.rsocket), quick)
            consumer.topic("t").messages(replay: .all, buffer: 1, overflow: .block).subscribe(full)
            try await reached { isSubscribed("t", broker) }
            for number in 0..<2 { try await client.topic("t").publish(bytes(number)) }
            let publication = (2..<5).publisher.map(bytes).publish(to: client.topic("t"))
            try await reached { try describe("t", port: broker.port(.rsocket)).contains("\"parked\":1") }
            broker.drain()
            if !repeats {
                #expect(await error { _ = try await publication.result() }?.code == .outcomeUnknown)
            }
            #expect(try await broker.process.end() == 0)
            try broker.start()
            full.increaseDemand(.unlimited)
            if repeats { #expect(try await publication.result() == 3) }
            full.cancel()
            await consumer.close()
            await client.close()
        }
    }

    @Test(arguments: Wire.allCases) func withoutAnotherBrokerTheErrorIsTyped(_ wire: Wire) async throws {
        let broker = try Daemon()
        try await within {
            var options = quick
            options.reconnect.attempts = 2
            let client = try await ForebayClient.connect(broker.url(wire), options)
            var messages = client.topic("t").messages(replay: .all).makeAsyncIterator()
            let subject = PassthroughSubject<[UInt8], Never>()
            let publication = subject.buffer(size: 10, prefetch: .keepFull, whenFull: .dropOldest)
                .publish(to: client.topic("t"))
            subject.send(bytes(1))
            #expect(try await messages.next()?.number == 1)
            try await reached { publication.acknowledged == 1 }
            broker.drain()
            #expect(await error { _ = try await messages.next() }?.code == .notConnected)
            #expect(await error { _ = try await publication.result() }?.code == .notConnected)
            try await reached { if case .closed = client.state { true } else { false } }
        }
    }
}
