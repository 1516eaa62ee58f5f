// Rows 14 and 18 of the library's guarantees, for operators with several upstreams: merge, flatMap, zip, combineLatest,
// switchToLatest, MergeInput.

import Streams
import StreamsTestSupport
import Testing

private typealias Source = PassthroughSubject<Int, Oops>

@Suite("Several upstreams")
struct JoiningTests {
    /// The demand sent to each of several upstreams.
    private final class Asked: @unchecked Sendable {
        var log: [Int: [Subscribers.Demand]] = [:]
        func watch<P: Publisher>(_ publisher: P, _ index: Int) -> some Publisher<P.Output, P.Failure> {
            publisher.handleEvents(receiveRequest: { self.log[index, default: []].append($0) })
        }
    }

    // merge

    @Test("row 14: merge passes on values as they arrive, and ends when all upstreams have")
    func merges() {
        let sources = (0..<8).map { _ in Source() }
        let merged = sources[0].merge(
            with: sources[1], sources[2], sources[3], sources[4], sources[5], sources[6], sources[7])
        let recorder = merged.record()
        for (index, source) in sources.enumerated() { source.send(index) }
        for source in sources.dropFirst() { source.send(completion: .finished) }
        sources[0].send(8)
        #expect(recorder.events == (0...8).asEvents(failure: Oops.self))
        sources[0].send(completion: .finished)
        #expect(recorder.events.last == .completion(.finished))
    }

    @Test("row 14: a failure of one ends merge, and the others are cancelled")
    func mergeFails() {
        nonisolated(unsafe) var cancelled = 0
        let failing = Source()
        let other = Source()
        let recorder = Publishers.MergeMany(
            [failing, other].map { $0.handleEvents(receiveCancel: { cancelled += 1 }) }
        ).record()
        failing.send(completion: .failure(Oops()))
        other.send(1)
        #expect(recorder.events == [].asEvents(failure: Oops.self, completion: .failure(Oops())))
        #expect(cancelled == 1)
    }

    @Test("row 14: under limited demand merge asks each for one value at a time")
    func mergeUnderLimitedDemand() {
        let asked = Asked()
        let recorder = asked.watch((1...4).publisher, 0).merge(with: asked.watch((11...14).publisher, 1))
            .record(demand: .max(1))
        #expect(recorder.values == [1])
        recorder.request(.max(5))
        #expect(recorder.values.count == 6 && Set(recorder.values).isSuperset(of: [1, 2, 11]))
        recorder.request(.unlimited)
        #expect(recorder.values.sorted() == [1, 2, 3, 4, 11, 12, 13, 14])
        #expect(recorder.events.last == .completion(.finished))
        #expect(asked.log[0]?.prefix(3).allSatisfy { $0 == .max(1) } == true)
    }

    // flatMap

    @Test("row 14: flatMap respects the number of publishers, and requests another when one has finished")
    func flatMapLimits() {
        let outer = (0..<4).publisher.setFailureType(to: Oops.self)
        let inner = (0..<4).map { _ in Source() }
        let asked = Asked()
        let recorder = asked.watch(outer, 0).flatMap(maxPublishers: .max(2)) { inner[$0] }.record()
        for (index, source) in inner.enumerated() { source.send(index) }
        #expect(recorder.values == [0, 1])
        inner[0].send(completion: .finished)
        inner[2].send(20)
        inner[1].send(10)
        inner[3].send(30)
        #expect(recorder.values == [0, 1, 20, 10])
        for source in inner { source.send(completion: .finished) }
        #expect(asked.log[0] == [.max(2), .max(1), .max(1)])
        #expect(recorder.events.last == .completion(.finished))
    }

    @Test("row 14: a publisher whose value waits counts, so that no more wait than the maximum of publishers")
    func flatMapIsBounded() {
        let asked = Asked()
        let recorder = asked.watch((0..<100).publisher, 0).flatMap(maxPublishers: .max(3)) { Just($0) }
            .record(demand: .none)
        #expect(asked.log[0] == [.max(3)])
        for count in 1...100 {
            recorder.request(.max(1))
            #expect(recorder.values == Array(0..<count))
        }
        #expect(recorder.events.last == .completion(.finished))
    }

    @Test("row 14: a failure of either ends flatMap")
    func flatMapFails() {
        let outer = Source()
        let inner = Source()
        let recorder = outer.flatMap { _ in inner }.record()
        outer.send(1)
        inner.send(2)
        inner.send(completion: .failure(Oops()))
        outer.send(3)
        #expect(recorder.events == [2].asEvents(failure: Oops.self, completion: .failure(Oops())))
    }

    @Test("row 14: flatMap of many nested publishers does not overflow the stack")
    func flatMapDepth() {
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var last = 0
        let cancellable = subject.flatMap { Just($0 + 1) }.sink {
            last = $0
            if $0 < 100_000 { subject.send($0) }
        }
        subject.send(0)
        #expect(last == 100_000)
        withExtendedLifetime(cancellable) {}
    }

    // zip

    @Test("row 14: zip asks each upstream for what is requested, and ends when one is used up")
    func zips() {
        let asked = Asked()
        let numbers = PassthroughSubject<Int, Never>()
        let letters = PassthroughSubject<String, Never>()
        let recorder = asked.watch(numbers, 0).zip(asked.watch(letters, 1)) { "\($0)\($1)" }.record(demand: .max(2))
        numbers.send(sequence: 1...3)
        letters.send("a")
        recorder.request(.max(1))
        numbers.send(4)
        numbers.send(completion: .finished)
        #expect(recorder.events == ["1a"].asEvents())
        letters.send(sequence: ["b", "c", "d"])
        #expect(recorder.events == ["1a", "2b", "4c"].asEvents(completion: .finished))
        #expect(asked.log == [0: [.max(2), .max(1)], 1: [.max(2), .max(1)]])
    }

    // combineLatest

    @Test("row 14: combineLatest combines the latest values, and ends when all have")
    func combinesLatest() {
        let a = PassthroughSubject<Int, Never>()
        let b = PassthroughSubject<Int, Never>()
        let recorder = a.combineLatest(b) { "\($0)-\($1)" }.record()
        a.send(1)
        a.send(2)
        b.send(10)
        a.send(3)
        a.send(completion: .finished)
        b.send(11)
        #expect(recorder.events == ["2-10", "3-10", "3-11"].asEvents())
        b.send(completion: .finished)
        #expect(recorder.events.last == .completion(.finished))
    }

    @Test("row 14: combineLatest under limited demand keeps the latest combination, then the end")
    func combinesOnDemand() {
        let recorder = (1...3).publisher.combineLatest((11...13).publisher) { $0 * 100 + $1 }.record(demand: .none)
        var count = 0
        while recorder.events.last != .completion(.finished), count < 10 {
            recorder.request(.max(1))
            count += 1
            #expect(recorder.values.count <= count)
        }
        #expect(recorder.values.last == 313 && recorder.events.last == .completion(.finished))
    }

    // switchToLatest

    @Test("row 14: switchToLatest cancels the previous publisher, and passes on the remaining demand")
    func switches() {
        let asked = Asked()
        nonisolated(unsafe) var cancelled: [Int] = []
        let inner = (0..<2).map { _ in Source() }
        let outer = Source()
        let recorder = outer.map { index in
            asked.watch(inner[index], index).handleEvents(receiveCancel: { cancelled.append(index) })
        }.switchToLatest().record(demand: .max(3))
        outer.send(0)
        inner[0].send(1)
        outer.send(1)
        inner[0].send(2)
        inner[1].send(3)
        #expect(recorder.values == [1, 3] && cancelled == [0])
        #expect(asked.log == [0: [.max(3)], 1: [.max(2)]])
        outer.send(completion: .finished)
        inner[1].send(sequence: 4...5, completion: .finished)
        #expect(recorder.events == [1, 3, 4].asEvents(failure: Oops.self, completion: .finished))
    }

    // MergeInput

    @Test("row 18: merge(into:) merges any number; the end of one source does not end it")
    func mergeInput() {
        let input = MergeInput<Int>()
        let recorder = input.record()
        let first = PassthroughSubject<Int, Never>()
        let second = PassthroughSubject<Int, Never>()
        first.merge(into: input)
        first.send(1)
        second.merge(into: input)
        second.send(2)
        first.send(completion: .finished)
        second.send(3)
        (4...6).publisher.merge(into: input)
        input.subscribe([7].publisher)
        #expect(recorder.events == (1...7).asEvents())
    }

    @Test("row 18: deinit cancels all, and so does cancel(), which sends no end")
    func mergeInputEnds() {
        nonisolated(unsafe) var cancelled = 0
        let source = PassthroughSubject<Int, Never>()
        let watched = source.handleEvents(receiveCancel: { cancelled += 1 })
        var input: MergeInput<Int>? = MergeInput()
        let recorder = input!.record()
        watched.merge(into: input!)
        watched.merge(into: input!)
        source.send(1)
        input = nil
        source.send(2)
        #expect(recorder.events == [1, 1].asEvents() && cancelled == 2)

        let other = MergeInput<Int>()
        let events = other.record()
        watched.merge(into: other)
        other.cancel()
        watched.merge(into: other)
        source.send(3)
        #expect(events.events == [] && cancelled == 4)
    }
}
