// IterationRun: the cost of a message to a program that reads it through the library: with a sink, as an asynchronous
// sequence, or as a publisher's values.

import Dispatch
import EventLoop
import Forebay
import Streams
import Synchronization

/// How a program reads the messages of a topic.
enum Taking: String, CaseIterable {
    case sink
    case forAwait = "for-await"
    case values
    /// The values of an operator.
    case mapValues = "map-values"
}

extension Bench {
    /// Wall time per message, from the subscription to the last message. The library runs on the generator's CPU.
    func iteration(_ messages: Int, payload: Int, _ contender: Contender) throws(BenchError) -> Figure {
        try withBroker(contender) { (broker) throws(BenchError) in
            try fill(messages, payload: payload, contender, broker)
            let taking = contender.taking ?? .sink
            let url = "rsocket://127.0.0.1:\(broker.port)"
            let client = try Bench.wait { try await ForebayClient.connect(url) }
            let topic = client.topic(RSocketWire().name(0))
            let meter = ResourceMeter(broker)
            try Bench.wait { try await taking.take(messages, of: topic) }
            var (figure, _, seconds) = meter.figure()
            figure[.perMessage] = seconds * 1e9 / Double(messages)
            try Bench.wait { await client.close() }
            return figure
        }
    }

    /// Blocks this thread until tasks on other threads are done.
    private static func wait<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) throws(BenchError) -> Value {
        let done = DispatchSemaphore(value: 0)
        let result = Mutex<Result<Value, BenchError>?>(nil)
        Task {
            let outcome: Result<Value, BenchError>
            do {
                outcome = .success(try await body())
            } catch {
                outcome = .failure(BenchError("\(error)"))
            }
            result.withLock { $0 = outcome }
            done.signal()
        }
        done.wait()
        return try result.withLock { $0! }.get()
    }
}

extension Taking {
    fileprivate func take(_ count: Int, of topic: Topic) async throws {
        let messages = topic.messages(replay: .all)
        var taken = 0
        switch self {
        case .sink: try await sink(count, messages)
        case .forAwait:
            for try await _ in messages {
                taken += 1
                if taken == count { break }
            }
        case .values:
            for try await _ in messages.values {
                taken += 1
                if taken == count { break }
            }
        case .mapValues:
            let mapped: Publishers.Map<TopicMessages, UInt64> = messages.map { $0.sequence }
            for try await _ in mapped.values {
                taken += 1
                if taken == count { break }
            }
        }
    }

    private func sink(_ count: Int, _ messages: TopicMessages) async throws {
        let taken = Atomic(0)
        let (ended, continuation) = AsyncThrowingStream.makeStream(of: Void.self)
        let cancellable = messages.sink(
            receiveCompletion: {
                if case .failure(let error) = $0 { continuation.finish(throwing: error) }
            },
            receiveValue: { _ in
                // Used only on the client's thread.
                let number = taken.load(ordering: .relaxed) + 1
                taken.store(number, ordering: .relaxed)
                if number == count { continuation.finish() }
            })
        for try await _ in ended {}
        cancellable.cancel()
    }
}
