// Rows 3 and 14 of the library's guarantees, for operators: what the matrix of all operators does not show.

import Foundation
import Streams
import StreamsTestSupport
import Testing

@Suite("Rows 3 and 14: operators")
struct OperatorsTests {
    @Test("Row 3: unwrap() on a publisher of optionals is compactMap")
    func unwrap() {
        let publisher: Publishers.CompactMap<PassthroughSubject<Int?, Never>, Int> =
            PassthroughSubject<Int?, Never>().unwrap()
        let recorder = publisher.record(demand: .max(2))
        publisher.upstream.send(sequence: [nil, 1, nil, 2, 3])
        #expect(recorder.values == [1, 2])
    }

    @Test("Row 14: scan(10, +) over 1 2 3 gives 11 13 16, and starts afresh for each subscriber")
    func scan() {
        let publisher = [1, 2, 3].publisher.scan(10, +)
        #expect(publisher.record().events == [11, 13, 16].asEvents(completion: .finished))
        #expect(publisher.record().events == [11, 13, 16].asEvents(completion: .finished))
    }

    @Test("Row 14: prefix ends with its last value, not with the one after it")
    func prefixEnds() {
        let subject = PassthroughSubject<Int, Never>()
        let recorder = subject.prefix(2).record()
        subject.send(sequence: 1...2)
        #expect(recorder.events == [1, 2].asEvents(completion: .finished))
    }

    @Test("Row 14: a filtered value does not use up the subscriber's demand")
    func demandIsKept() {
        let source = ManualSource([1, 1, 1, 2, 2, 3])
        let recorder = source.removeDuplicates().drop { $0 == 1 }.record(demand: .max(1))
        #expect(recorder.values == [2])
        #expect(source.subscriptions[0].outstanding == .none)
        let gate = PassthroughSubject<Void, TestError>()
        let subject = PassthroughSubject<Int, TestError>()
        let gated = subject.drop(untilOutputFrom: gate).record(demand: .max(2))
        subject.send(sequence: 1...5)
        gate.send()
        subject.send(sequence: 6...9)
        #expect(gated.values == [6, 7])
    }

    @Test("Row 14: collect by count keeps the rest, when upstream has finished, until there is demand")
    func collectWaits() {
        let subject = PassthroughSubject<Int, Never>()
        let recorder = subject.collect(2).record(demand: .max(1))
        subject.send(sequence: 1...3)
        #expect(recorder.values == [[1, 2]])
        let publisher = (1...3).publisher.collect(2)
        let slow = publisher.record(demand: .max(1))
        #expect(slow.values == [[1, 2]])
        slow.request(.max(1))
        #expect(slow.events == [[1, 2], [3]].asEvents(completion: .finished))
        // The same downstream of an upstream that sends more than was requested.
        let source = ManualSource()
        let overrun = source.collect(2).record(demand: .none)
        source.subscriptions[0].send(1)
        source.subscriptions[0].send(completion: .finished)
        #expect(overrun.events == [])
        overrun.request(.max(1))
        #expect(overrun.events == [[1]].asEvents(failure: TestError.self, completion: .finished))
    }

    @Test("Row 14: replaceError and replaceEmpty hold their value back until there is demand")
    func replacementWaits() {
        let failed = Fail<Int, TestError>(error: TestError()).replaceError(with: 1).record(demand: .none)
        #expect(failed.events == [])
        failed.request(.max(1))
        #expect(failed.events == [1].asEvents(completion: .finished))
        let empty = Empty<Int, Never>().replaceEmpty(with: 2).record(demand: .none)
        #expect(empty.events == [])
        empty.request(.max(1))
        #expect(empty.events == [2].asEvents(completion: .finished))
    }

    @Test("Row 14: a result known before the end cancels upstream, and waits for demand")
    func earlyAnswer() {
        let source = ManualSource([1, 2, 3])
        let recorder = source.first { $0 == 2 }.record(demand: .none)
        #expect(source.subscriptions[0].cancellations == 1 && source.subscriptions[0].sent == 2)
        #expect(recorder.events == [])
        recorder.request(.max(1))
        #expect(recorder.events == [2].asEvents(failure: TestError.self, completion: .finished))
    }

    @Test("Row 14: append subscribes when the first has finished, and passes on the remaining demand")
    func appendCarriesDemand() {
        let first = ManualSource([1, 2], end: .finished)
        let second = ManualSource([3, 4, 5], end: .finished)
        let recorder = first.append(second).record(demand: .max(1))
        #expect(second.subscriptions.isEmpty)
        recorder.request(.max(3))
        #expect(recorder.values == [1, 2, 3, 4])
        #expect(second.subscriptions.map(\.asked) == [.max(2)])
        recorder.request(.max(1))
        #expect(recorder.values == [1, 2, 3, 4, 5])
        recorder.cancel()
    }

    @Test("Row 14: what an upstream sends after its end, when another has replaced it, is ignored")
    func replacedUpstream() throws {
        let first = ManualSource()
        let second = ManualSource()
        let recorder = first.append(second).record()
        let intruder = try #require(first.subscriptions[0].intruder)
        first.subscriptions[0].send(completion: .finished)
        _ = intruder.receive(1)
        intruder.receive(completion: .failure(TestError()))
        intruder.receive(completion: .finished)
        #expect(second.subscriptions.count == 1)
        second.subscriptions[0].send(2)
        #expect(recorder.events == [2].asEvents(failure: TestError.self))
        second.subscriptions[0].send(completion: .finished)
        #expect(recorder.events == [2].asEvents(failure: TestError.self, completion: .finished))
        // An upstream that has ended is not cancelled.
        #expect(second.subscriptions[0].cancellations == 0 && first.subscriptions[0].cancellations == 0)
    }

    @Test("Row 14: until another publisher publishes: it is asked for one value, and cancelled at the end")
    func untilOutput() {
        for ending in ["finished", "cancelled", "turned"] {
            for opens in [false, true] {
                let (source, other) = (ManualSource(), ManualSource())
                let recorder =
                    opens
                    ? source.drop(untilOutputFrom: other).eraseToAnyPublisher().record()
                    : source.prefix(untilOutputFrom: other).eraseToAnyPublisher().record()
                #expect(other.subscriptions[0].asked == .max(1))
                source.subscriptions[0].send(1)
                switch ending {
                case "finished": source.subscriptions[0].send(completion: .finished)
                case "cancelled": recorder.cancel()
                default: other.subscriptions[0].send(0)
                }
                #expect(other.subscriptions[0].cancellations == 1)
                #expect(recorder.values == (opens ? [] : [1]))
                #expect(source.subscriptions[0].isOver == !(opens && ending == "turned"))
            }
        }
    }

    @Test("Row 14: catch continues with another publisher, and its failure is the stream's")
    func catchFails() {
        let recorder = Fail<Int, TestError>(error: TestError())
            .catch { _ in Record<Int, TestError>(output: [1, 2], completion: .failure(TestError())) }
            .record(demand: .max(1))
        #expect(recorder.values == [1])
        recorder.request(.max(1))
        #expect(recorder.events == [1, 2].asEvents(failure: TestError.self, completion: .failure(TestError())))
        nonisolated(unsafe) var isSubscribed = false
        let cancelled = PassthroughSubject<Int, TestError>()
        let never = cancelled.catch { _ in
            isSubscribed = true
            return Just(1)
        }.record()
        never.cancel()
        cancelled.send(completion: .failure(TestError()))
        #expect(!isSubscribed && never.values == [])
    }

    @Test("Row 14: retry subscribes again with the remaining demand, at most as often as given")
    func retries() {
        nonisolated(unsafe) var attempts = 0
        let publisher = Deferred { () -> AnyPublisher<Int, TestError> in
            attempts += 1
            return Record(output: [attempts], completion: attempts < 3 ? .failure(TestError()) : .finished)
                .eraseToAnyPublisher()
        }
        let recorder = publisher.retry(5).record(demand: .max(2))
        #expect(recorder.values == [1, 2])
        recorder.request(.max(1))
        #expect(recorder.events == [1, 2, 3].asEvents(failure: TestError.self, completion: .finished))
        attempts = 0
        #expect(publisher.retry(1).record().events.last == .completion(.failure(TestError())))
        #expect(attempts == 2)
    }

    @Test("Row 14: a publisher that fails at once can be retried 100,000 times without overflowing the stack")
    func retriesFlat() {
        nonisolated(unsafe) var attempts = 0
        let publisher = Deferred { () -> Fail<Int, TestError> in
            attempts += 1
            return Fail(error: TestError())
        }
        #expect(publisher.retry(100_000).record().events == [.completion(.failure(TestError()))])
        #expect(attempts == 100_001)
    }

    @Test("Row 14: cancelled before the next publisher has responded, its subscription is cancelled when it arrives")
    func cancelledBetween() {
        final class Slow: Publisher {
            typealias Output = Int
            typealias Failure = TestError
            var subscriber: AnySubscriber<Int, TestError>?
            func receive<S: Subscriber>(subscriber: S) where S.Input == Int, S.Failure == TestError {
                self.subscriber = AnySubscriber(subscriber)
            }
        }
        let slow = Slow()
        let recorder = Empty<Int, TestError>().append(slow).record(demand: .max(3))
        #expect(recorder.history == [.subscription])
        recorder.cancel()
        let late = ManualSubscription(AnySubscriber<Int, TestError>(), values: [], end: nil)
        slow.subscriber?.receive(subscription: late)
        #expect(late.cancellations == 1 && late.asked == .none)
    }

    @Test("Row 14: encode and decode with Foundation's coders; invalid input ends the stream")
    func coding() {
        let values = [[1], [2, 3]].publisher
        let decoded = values.encode(encoder: JSONEncoder()).decode(type: [Int].self, decoder: JSONDecoder()).record()
        #expect(decoded.values == [[1], [2, 3]])
        let wrong = Just(Data("x".utf8)).decode(type: Int.self, decoder: JSONDecoder()).record()
        #expect(wrong.values == [])
        #expect(wrong.history.count == 2)
        guard case .completion(.failure) = wrong.history[1] else { return #expect(Bool(false)) }
    }

    @Test("Row 14: assertNoFailure lets values pass, and stops the process at a failure")
    func assertsNoFailure() async {
        #expect(
            ManualSource([1], end: .finished).assertNoFailure().record().events == [1].asEvents(completion: .finished))
        await #expect(processExitsWith: .failure) {
            _ = Fail<Int, TestError>(error: TestError()).assertNoFailure("told so").record()
        }
    }
}
