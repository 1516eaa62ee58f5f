// Row 14 of the library's guarantees, for sources: Just, Empty, Fail, Record, optionals, results, sequences, and
// Future.

import Foundation
import Streams
import StreamsTestSupport
import Testing

@Suite("Row 14: sources")
struct SourcesTests {
    @Test("a source of one value waits for demand, and finishes with it")
    func one() {
        for publisher in [
            Just(7).eraseToAnyPublisher(), Optional(7).publisher.eraseToAnyPublisher(),
            Result<Int, Never>.success(7).publisher.eraseToAnyPublisher(),
            Record(output: [7], completion: .finished).eraseToAnyPublisher(),
            Future { $0(.success(7)) }.eraseToAnyPublisher(), [7].publisher.eraseToAnyPublisher(),
        ] {
            let recorder = publisher.record(demand: .none)
            #expect(recorder.history == [.subscription])
            recorder.request(.max(2))
            recorder.request(.max(1))
            #expect(recorder.history == [.subscription, .value(7), .completion(.finished)])
            let cancelled = publisher.record(demand: .none)
            cancelled.cancel()
            cancelled.request(.unlimited)
            #expect(cancelled.history == [.subscription])
        }
    }

    @Test("a source without values ends without demand")
    func none() {
        for publisher in [
            Empty<Int, TestError>().eraseToAnyPublisher(),
            Optional<Int>.none.publisher.setFailureType(to: TestError.self).eraseToAnyPublisher(),
            [].publisher.setFailureType(to: TestError.self).eraseToAnyPublisher(),
            Record(output: [], completion: .finished).eraseToAnyPublisher(),
        ] {
            #expect(publisher.record(demand: .none).history == [.subscription, .completion(.finished)])
        }
        for publisher in [
            Fail<Int, TestError>(error: TestError()).eraseToAnyPublisher(),
            Result<Int, TestError>.failure(TestError()).publisher.eraseToAnyPublisher(),
            Record(output: [], completion: .failure(TestError())).eraseToAnyPublisher(),
            Future { $0(.failure(TestError())) }.eraseToAnyPublisher(),
        ] {
            #expect(publisher.record(demand: .none).history == [.subscription, .completion(.failure(TestError()))])
        }
        let never = Empty(completeImmediately: false, outputType: Int.self, failureType: TestError.self)
        #expect(never.record().history == [.subscription])
    }

    @Test("a record plays its values on demand, and then its end")
    func record() throws {
        let record = Record<Int, TestError> { recording in
            recording.receive(1)
            recording.receive(2)
            recording.receive(completion: .failure(TestError()))
        }
        let recorder = record.record(demand: .max(1))
        #expect(recorder.values == [1])
        recorder.request(.max(1))
        #expect(recorder.events == [1, 2].asEvents(failure: TestError.self, completion: .failure(TestError())))
        #expect(record.recording.output == [1, 2])
        let names = Record<String, Never>(output: ["a", "b"], completion: .finished)
        let encoded = try JSONEncoder().encode(names.recording.output)
        #expect(try JSONDecoder().decode([String].self, from: encoded) == ["a", "b"])
    }

    @Test("a record is encoded with its end, and decoded again")
    func encodedRecord() throws {
        struct Coded: Error, Codable, Equatable { let code: Int }
        let record = Record<Int, Coded>(output: [3, 4], completion: .failure(Coded(code: 5)))
        let decoded = try JSONDecoder().decode(Record<Int, Coded>.self, from: JSONEncoder().encode(record))
        #expect(decoded.recording.output == [3, 4])
        #expect(decoded.recording.completion == .failure(Coded(code: 5)))
    }

    @Test("a sequence is not computed beyond what is requested, also through operators")
    func lazySequence() {
        final class Counter: IteratorProtocol, Sequence {
            var count = 0
            func next() -> Int? {
                count += 1
                return count
            }
        }
        let counter = Counter()
        let recorder = counter.publisher.map { $0 * 10 }.filter { $0 % 20 == 0 }.scan(0, +).record(demand: .max(2))
        #expect(recorder.values == [20, 60])
        // One value is computed in advance, so that the end can come with the last value.
        #expect(counter.count <= 5)
        recorder.cancel()
        #expect(sequence(first: 1) { $0 * 2 }.publisher.prefix(4).record().values == [1, 2, 4, 8])
    }

    @Test("a sequence, which may be long, is described only when inspected, and not for each subscriber")
    func descriptionOfASequence() {
        final class Counter: Sequence, CustomStringConvertible {
            var looks = 0
            var description: String {
                looks += 1
                return "[1, 2]"
            }
            func makeIterator() -> IndexingIterator<[Int]> { [1, 2].makeIterator() }
        }
        let counter = Counter()
        nonisolated(unsafe) var subscription: (any Subscription)?
        counter.publisher.subscribe(AnySubscriber<Int, Never>(receiveSubscription: { subscription = $0 }))
        #expect(counter.publisher.map { $0 * 2 }.record().values == [2, 4])
        #expect(counter.looks == 0)
        #expect(subscription.map { "\($0)" } == "[1, 2]" && counter.looks == 1)
    }

    @Test("a future starts at once, accepts one result, and keeps it for late subscribers")
    func future() {
        var promise: Future<Int, TestError>.Promise?
        let future = Future<Int, TestError> { promise = $0 }
        let early = future.record()
        let withoutDemand = future.record(demand: .none)
        let cancelled = future.record()
        cancelled.cancel()
        #expect(early.history == [.subscription])
        promise?(.success(1))
        promise?(.success(2))
        promise?(.failure(TestError()))
        let late = future.record()
        #expect(early.events == [1].asEvents(failure: TestError.self, completion: .finished))
        #expect(late.events == early.events)
        #expect(cancelled.events == [])
        #expect(withoutDemand.events == [])
        withoutDemand.request(.max(1))
        #expect(withoutDemand.events == early.events)
    }

    @Test("a future releases its subscribers, and lives as long as one waits")
    func futureLifetime() {
        var promise: Future<Int, Never>.Promise?
        weak var weakFuture: Future<Int, Never>?
        weak var weakRecorder: Recorder<Int, Never>?
        do {
            let future = Future<Int, Never> { promise = $0 }
            weakFuture = future
            weakRecorder = future.record()
        }
        #expect(weakRecorder != nil)
        promise?(.success(1))
        #expect(weakRecorder == nil)
        promise = nil
        #expect(weakFuture == nil)
    }

    @Test("operators on constants have the same types as in Combine")
    func knownResults() {
        let just: Just<String> = Just(1).map { "\($0)" }
        #expect(just == Just("1"))
        #expect(Just(1).filter { $0 > 1 } == Optional<Int>.none.publisher)
        #expect(Just(1).append(2, 3) == [1, 2, 3].publisher)
        #expect(
            Just(1).tryMap { _ in throw TestError() }.mapError { $0 as? TestError ?? TestError() }.result
                == Result<Int, TestError>.failure(TestError()))
        #expect(Optional(3).publisher.replaceEmpty(with: 4) == Just(3))
        #expect(Result<Int, TestError>.failure(TestError()).publisher.replaceError(with: 4).result == .success(4))
        let mapped: Publishers.Sequence<[Int], Never> = [1, 2].publisher.map { $0 + 1 }
        #expect(mapped.sequence == [2, 3])
        #expect([1, 2].publisher.append(3) == [1, 2, 3].publisher)
        #expect([1, 2].publisher.count() == Just(2))
        #expect([2, 1].publisher.min() == Optional(1).publisher)
    }
}
