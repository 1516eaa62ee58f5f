// Row 24: publishers as asynchronous sequences, and the reverse.

import Foundation
import Streams
import StreamsCore
import StreamsTestSupport
import Testing

private enum Broken: Error { case once }

/// Events from any thread, and a wait for them.
private actor Log {
    private var lines: [String] = []
    private var waiting: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

    func note(_ line: String) {
        lines.append(line)
        let done = waiting.filter { $0.count <= lines.count }
        waiting.removeAll { $0.count <= lines.count }
        for (_, continuation) in done { continuation.resume() }
    }

    nonisolated func later(_ line: String) { Task { await note(line) } }

    /// The first `count` lines, once there are `count` of them.
    func first(_ count: Int) async -> [String] {
        if lines.count < count { await withCheckedContinuation { waiting.append((count, $0)) } }
        return Array(lines.prefix(count))
    }

    var all: [String] { lines }
}

/// Counts from 1, logs each request, and fails or waits at a given element.
private struct Counter: AsyncSequence, Sendable {
    let log: Log
    var last = Int.max
    var failing: Int?

    struct AsyncIterator: AsyncIteratorProtocol {
        let counter: Counter
        var value = 0

        mutating func next() async throws -> Int? {
            value += 1
            await counter.log.note("next \(value)")
            if value == counter.failing { throw Broken.once }
            return value > counter.last ? nil : value
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(counter: self) }
}

@Suite("row 24: values, and publisher of an AsyncSequence: demand-driven both ways", .timeLimit(.minutes(10)))
struct AsyncTests {
    /// Like a broker's topic: requesting several values at a time pays off.
    private struct Windowed: Streams.Publisher, PrefetchingPublisher {
        typealias Output = Int
        typealias Failure = TestError
        let source: ManualSource
        var prefetchHint: Int? { 8 }

        func receive<S: Streams.Subscriber>(subscriber: S) where S.Input == Int, S.Failure == TestError {
            source.receive(subscriber: subscriber)
        }
    }

    @Test("values: a publisher that benefits is asked for a window, and again when half of it is taken")
    func aWindow() async throws {
        let source = ManualSource(Array(1...10), end: .failure(TestError()))
        var iterator = Windowed(source: source).map { $0 }.values.makeAsyncIterator()
        #expect(source.subscriptions[0].asked == .none)
        #expect(try await iterator.next() == 1)
        #expect(source.subscriptions[0].asked == .max(8) && source.subscriptions[0].sent == 8)
        for value in 2...3 { #expect(try await iterator.next() == value) }
        #expect(source.subscriptions[0].asked == .max(8))
        #expect(try await iterator.next() == 4)
        #expect(source.subscriptions[0].asked == .max(12) && source.subscriptions[0].isOver)
        for value in 5...10 { #expect(try await iterator.next() == value, "what has arrived is taken before the end") }
        await #expect(throws: TestError()) { try await iterator.next() }
        #expect(try await iterator.next() == nil)
    }

    /// Reports the end of a turn, like a topic's messages.
    private final class Turning: Streams.Publisher, PrefetchingPublisher {
        typealias Output = Int
        typealias Failure = Never
        private(set) var subscription: ManualSubscription?
        private(set) var send: (Int) -> Void = { _ in }
        private(set) var finish: () -> Void = {}
        private(set) weak var turns: (any TurnSubscriber)?
        var prefetchHint: Int? { 8 }

        func receive<S: Streams.Subscriber>(subscriber: S) where S.Input == Int, S.Failure == Never {
            turns = subscriber.turns
            turns?.expectTurns()
            send = { _ = subscriber.receive($0) }
            finish = { subscriber.receive(completion: .finished) }
            let subscription = ManualSubscription(AnySubscriber<Int, TestError>(), values: [], end: nil)
            self.subscription = subscription
            subscriber.receive(subscription: subscription)
        }
    }

    @Test(
        "values: a waiting task is resumed when the turn or the stream ends", arguments: [false, true])
    func turns(ends: Bool) async {
        let source = Turning()
        nonisolated(unsafe) let values = source.filter { $0 > 0 }.map { $0 * 2 }.setFailureType(to: TestError.self)
            .map { $0 }.assertNoFailure().values
        let log = Log()
        let task = Task { for await value in values { await log.note("\(value)") } }
        while source.subscription?.asked != .max(8) { await Task.yield() }
        for value in 0...5 { source.send(value) }
        for _ in 0..<100 { await Task.yield() }
        #expect(await log.all == [])
        if !ends {
            #expect(source.turns?.turnEnded() == Subscribers.Demand.none, "half of the window was not taken")
            _ = await log.first(5)
            #expect(source.subscription?.asked == .max(12))
        }
        source.finish()
        await task.value
        #expect(await log.all == ["2", "4", "6", "8", "10"])
    }

    @Test("values: no more than the window is held, whatever a publisher that breaks the rules sends")
    func aWindowIsKept() async throws {
        let source = ManualSource(Array(1...8))
        var iterator = Windowed(source: source).values.makeAsyncIterator()
        #expect(try await iterator.next() == 1)
        for value in 9...20 { source.subscriptions[0].send(value) }
        source.subscriptions[0].send(completion: .finished)
        var rest: [Int] = []
        while let value = try await iterator.next() { rest.append(value) }
        #expect(rest == Array(2...9))
    }

    @Test("values: a cancelled task receives nothing more, whatever has arrived")
    func aWindowOfATaskThatIsCancelled() async {
        let source = ManualSource(Array(1...10))
        nonisolated(unsafe) let values = Windowed(source: source).values
        let seen = await Task {
            var seen: [Int] = []
            do {
                for try await value in values {
                    seen.append(value)
                    if value == 2 { withUnsafeCurrentTask { $0?.cancel() } }
                }
            } catch {}
            return seen
        }.value
        #expect(seen == [1, 2])
        #expect(source.subscriptions[0].cancellations == 1)
    }

    @Test("values: one element is requested for each next(), and the end ends the loop")
    func values() async {
        nonisolated(unsafe) var asked: [Subscribers.Demand] = []
        let publisher = (1...5).publisher.handleEvents(receiveRequest: { asked.append($0) })
        var iterator = publisher.values.makeAsyncIterator()
        #expect(asked == [])
        #expect(await iterator.next() == 1)
        #expect(await iterator.next() == 2)
        #expect(asked == [.max(1), .max(1)])
        var rest: [Int] = []
        while let value = await iterator.next() { rest.append(value) }
        #expect(rest == [3, 4, 5])
        #expect(await iterator.next() == nil)
    }

    @Test("values that fail: the elements, the failure once, then nothing")
    func throwing() async throws {
        let subject = BufferSubject<Int, Broken>(limit: 10)
        subject.send(sequence: [1, 2], completion: .failure(.once))
        var iterator = subject.values.makeAsyncIterator()
        #expect(try await iterator.next() == 1)
        #expect(try await iterator.next() == 2)
        await #expect(throws: Broken.once) { try await iterator.next() }
        #expect(try await iterator.next() == nil)
        var collected: [Int] = []
        let failing = subject.values
        await #expect(throws: Broken.once) { for try await value in failing { collected.append(value) } }
        #expect(collected == [1, 2])
    }

    @Test("nothing is buffered: what a subject sends while nobody waits is lost")
    func unbuffered() async {
        let subject = PassthroughSubject<Int, Never>()
        let handed = AsyncStream.makeStream(of: Subscribers.Demand.self)
        let publisher = subject.handleEvents(receiveRequest: { handed.continuation.yield($0) })
        var iterator = publisher.values.makeAsyncIterator()
        subject.send(1)
        let sender = Task {
            var requests = handed.stream.makeAsyncIterator()
            _ = await requests.next()
            subject.send(2)
            subject.send(3)
            _ = await requests.next()
            subject.send(4)
        }
        #expect(await iterator.next() == 2)
        #expect(await iterator.next() == 4)
        await sender.value
    }

    @Test("a task that is cancelled while it waits cancels the subscription, and receives nil")
    func cancelledTask() async {
        let log = Log()
        let subject = PassthroughSubject<Int, Never>()
        let publisher = subject.handleEvents(
            receiveCancel: { log.later("cancelled") }, receiveRequest: { _ in log.later("asked") })
        let task = Task {
            var count = 0
            for await _ in publisher.values { count += 1 }
            return count
        }
        #expect(await log.first(1) == ["asked"])
        task.cancel()
        #expect(await task.value == 0)
        #expect(await log.first(2) == ["asked", "cancelled"])
        let after = Task { () -> Int? in
            withUnsafeCurrentTask { $0?.cancel() }
            var iterator = subject.values.makeAsyncIterator()
            return await iterator.next()
        }
        #expect(await after.value == nil)
    }

    @Test("releasing an iterator cancels the subscription")
    func brokenLoop() async {
        nonisolated(unsafe) var log: [String] = []
        let publisher = (1...100).publisher.handleEvents(receiveCancel: { log.append("cancelled") })
        for await value in publisher.values where value == 3 { break }
        #expect(log == ["cancelled"])
    }

    @Test("copies of an iterator share the values: each goes to one of the waiting tasks")
    func copies() async {
        let subject = PassthroughSubject<Int, Never>()
        let log = Log()
        let publisher = subject.handleEvents(receiveRequest: { log.later("\($0)") })
        let values = publisher.values
        let both = Task {
            let iterator = values.makeAsyncIterator()
            return await withTaskGroup(of: Int?.self) { group in
                for _ in 0..<2 {
                    nonisolated(unsafe) var copy = iterator
                    group.addTask { await copy.next() }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
        _ = await log.first(2)
        subject.send(sequence: 1...3)
        #expect(await both.value.compactMap(\.self).sorted() == [1, 2])
    }

    @Test("a publisher of an asynchronous sequence takes an element only on demand")
    func publisher() async {
        let log = Log()
        let events = AsyncStream.makeStream(of: Void.self)
        let recorder = Recorder<Int, any Error>(demand: .none)
        recorder.onValue = { _, _ in
            events.continuation.yield()
            return .none
        }
        recorder.onCompletion = { _, _ in events.continuation.yield() }
        Counter(log: log, last: 4).publisher.subscribe(recorder)
        var happened = events.stream.makeAsyncIterator()
        #expect(await log.all == [])
        recorder.request(.max(2))
        for _ in 0..<2 { await happened.next() }
        #expect(recorder.values == [1, 2])
        #expect(await log.all == ["next 1", "next 2"])
        recorder.request(.unlimited)
        for _ in 0..<3 { await happened.next() }
        #expect(recorder.values == [1, 2, 3, 4])
        guard case .finished = recorder.completion else {
            Issue.record("It did not finish.")
            return
        }
        #expect("\(recorder.subscription!)" == "AsyncElements")
    }

    @Test("a sequence that throws is a stream that fails; each subscriber has its own iterator")
    func failing() async {
        let log = Log()
        let publisher = Counter(log: log, failing: 3).publisher
        for _ in 0..<2 {
            let ended = AsyncStream.makeStream(of: Void.self)
            let recorder = Recorder<Int, any Error>(demand: .unlimited)
            recorder.onCompletion = { _, _ in ended.continuation.yield() }
            publisher.subscribe(recorder)
            var happened = ended.stream.makeAsyncIterator()
            await happened.next()
            #expect(recorder.values == [1, 2])
            guard case .failure(Broken.once) = recorder.completion else {
                Issue.record("It did not fail.")
                return
            }
        }
    }

    @Test("cancel cancels the task, even while it waits for an element or for demand", arguments: [0, 1, 2])
    func cancelledPublisher(demand: Int) async {
        let ended = AsyncStream.makeStream(of: Void.self)
        let elements = AsyncStream<Int> { continuation in
            continuation.yield(1)
            continuation.onTermination = { _ in ended.continuation.yield() }
        }
        let received = AsyncStream.makeStream(of: Void.self)
        let recorder = Recorder<Int, Never>(demand: .max(demand))
        recorder.onValue = { _, _ in
            received.continuation.yield()
            return .none
        }
        elements.publisher.subscribe(recorder)
        if demand > 0 {
            var happened = received.stream.makeAsyncIterator()
            await happened.next()
        }
        recorder.cancel()
        #expect(recorder.values == (demand > 0 ? [1] : []) && recorder.completion == nil)
        guard demand == 2 else { return }
        var happened = ended.stream.makeAsyncIterator()
        await happened.next()
    }

    @Test("the value of a Future, whether available before or later; its failure is thrown")
    func future() async throws {
        #expect(await Future<Int, Never> { $0(.success(1)) }.value == 1)
        await #expect(throws: Broken.once) { try await Future<Int, Broken> { $0(.failure(.once)) }.value }
        #expect(try await Future<Int, Broken> { $0(.success(2)) }.value == 2)
        let later = Future<Int, Never> { promise in
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(10)) { promise(.success(3)) }
        }
        async let first = later.value
        async let second = later.value
        #expect(await first + second == 6)
    }

    @Test("there and back: 10,000 elements through both, in order")
    func roundTrip() async {
        let elements = AsyncStream<Int> { continuation in
            for value in 1...10_000 { continuation.yield(value) }
            continuation.finish()
        }
        var next = 1
        for await value in elements.publisher.map({ $0 * 2 }).values {
            #expect(value == next * 2)
            next += 1
        }
        #expect(next == 10_001)
    }
}
