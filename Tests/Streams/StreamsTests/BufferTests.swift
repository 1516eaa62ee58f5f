// Rows 11 and 12 of the library's guarantees: buffer and BufferSubject.

import Streams
import StreamsTestSupport
import Testing

@Suite("buffer, BufferSubject")
struct BufferTests {
    private typealias Strategy = Publishers.BufferingStrategy<Oops>

    /// Sends 1…5 into a buffer of 3, and records what remains of them.
    private func filled(_ strategy: Strategy) -> Recorder<Int, Oops> {
        let subject = PassthroughSubject<Int, Oops>()
        let recorder = subject.buffer(size: 3, prefetch: .byRequest, whenFull: strategy).record(demand: .none)
        subject.send(sequence: 1...5, completion: .finished)
        #expect(recorder.events == [].asEvents(failure: Oops.self))
        recorder.request(.max(1))
        #expect(recorder.events.count == 1)
        recorder.request(.unlimited)
        return recorder
    }

    @Test("row 11: dropNewest refuses the arriving value")
    func dropNewest() {
        #expect(filled(.dropNewest).events == [1, 2, 3].asEvents(failure: Oops.self, completion: .finished))
    }

    @Test("row 11: dropOldest drops the oldest")
    func dropOldest() {
        #expect(filled(.dropOldest).events == [3, 4, 5].asEvents(failure: Oops.self, completion: .finished))
    }

    @Test("row 11: replaceNewest replaces the last value by the arriving one")
    func replaceNewest() {
        #expect(filled(.replaceNewest).events == [1, 2, 5].asEvents(failure: Oops.self, completion: .finished))
    }

    @Test("row 11: customError delivers what is buffered, then the failure")
    func customError() {
        let recorder = filled(.customError { Oops() })
        #expect(recorder.events == [1, 2, 3].asEvents(failure: Oops.self, completion: .failure(Oops())))
    }

    @Test("row 11: customError cancels upstream when the buffer overflows, while buffered values still wait")
    func customErrorCancels() {
        let subject = PassthroughSubject<Int, Oops>()
        nonisolated(unsafe) var log: [String] = []
        let recorder = subject.handleEvents(receiveOutput: { log.append("\($0)") }, receiveCancel: { log.append("-") })
            .buffer(size: 2, prefetch: .byRequest, whenFull: .customError { Oops() }).record(demand: .none)
        subject.send(sequence: 1...5, completion: .finished)
        #expect(log == ["1", "2", "3", "-"] && recorder.values == [])
        recorder.request(.unlimited)
        #expect(recorder.events == [1, 2].asEvents(failure: Oops.self, completion: .failure(Oops())))
    }

    @Test("row 11: keepFull requests as much as there is room for, byRequest everything")
    func prefetch() {
        nonisolated(unsafe) var asked: [Subscribers.Demand] = []
        let source = (1...10).publisher.handleEvents(receiveRequest: { asked.append($0) })
        let full = source.buffer(size: 3, prefetch: .keepFull, whenFull: .dropNewest).record(demand: .none)
        #expect(asked == [.max(3)])
        full.request(.max(2))
        #expect(asked == [.max(3), .max(2)])
        full.request(.unlimited)
        #expect(full.events == (1...10).asEvents(completion: .finished))
        asked = []
        let all = source.buffer(size: 3, prefetch: .byRequest, whenFull: .dropNewest).record(demand: .none)
        #expect(asked == [.unlimited])
        all.request(.unlimited)
        #expect(all.values == [1, 2, 3])
    }

    @Test("row 11: an upstream's failure waits for the buffered values")
    func failureWaits() {
        let subject = PassthroughSubject<Int, Oops>()
        let recorder = subject.buffer(size: 3, prefetch: .byRequest, whenFull: .dropOldest).record(demand: .none)
        subject.send(sequence: 1...2, completion: .failure(Oops()))
        recorder.request(.max(1))
        #expect(recorder.events == [1].asEvents(failure: Oops.self))
        recorder.request(.max(1))
        #expect(recorder.events == [1, 2].asEvents(failure: Oops.self, completion: .failure(Oops())))
    }

    @Test("row 12: replays its buffer and its completion to every later subscriber; by default one value")
    func replays() {
        let subject = BufferSubject<Int, Oops>()
        let none = subject.record()
        subject.send(sequence: 1...2)
        let one = subject.record()
        subject.send(3)
        subject.send(completion: .finished)
        subject.send(4)
        #expect(none.events == [1, 2, 3].asEvents(failure: Oops.self, completion: .finished))
        #expect(one.events == [2, 3].asEvents(failure: Oops.self, completion: .finished))
        for _ in 0..<2 {
            #expect(subject.record().events == [3].asEvents(failure: Oops.self, completion: .finished))
        }
    }

    @Test("row 12: each subscriber has its own buffer; customError fails it after the buffered values")
    func buffersOfTheirOwn() {
        let subject = BufferSubject<Int, Oops>(limit: 2, whenFull: .customError { Oops() })
        let fast = subject.record()
        let slow = subject.record(demand: .none)
        subject.send(sequence: 1...3)
        #expect(fast.events == [1, 2, 3].asEvents(failure: Oops.self))
        slow.request(.max(2))
        #expect(slow.events == [1, 2].asEvents(failure: Oops.self, completion: .failure(Oops())))
    }

    @Test("row 12: an upstream that feeds it is asked for everything, and cancelled with it")
    func feeds() {
        nonisolated(unsafe) var asked: [Subscribers.Demand] = []
        var subject: BufferSubject<Int, Never>? = BufferSubject(limit: 2)
        let source = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var cancelled = 0
        let connection = source.handleEvents(
            receiveCancel: { cancelled += 1 }, receiveRequest: { asked.append($0) }
        ).subscribe(subject!)
        source.send(sequence: 1...3)
        #expect(subject?.record().values == [2, 3] && asked == [.unlimited])
        subject = nil
        #expect(cancelled == 0)
        connection.cancel()
        #expect(cancelled == 1)
    }
}
