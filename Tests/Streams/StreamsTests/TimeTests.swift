// Row 20, on a virtual clock: delay, debounce, throttle, timeout, measureInterval, collect by time.

import Streams
import StreamsTestSupport
import Testing

private enum Broken: Error { case once, late }

private func line(_ text: String) throws -> Marbles<String, Broken> { try Marbles(text, failure: .once) }

@Suite("row 20: delay, debounce, throttle, timeout on a virtual clock")
struct TimeTests {
    /// The output of an operator for one line.
    private func expect<P: Publisher>(
        _ input: String, gives output: String, demand: Subscribers.Demand = .unlimited,
        _ make: (PassthroughSubject<String, Broken>, VirtualTimeScheduler) -> P,
        at location: SourceLocation = #_sourceLocation
    ) throws where P.Output == String, P.Failure == Broken {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<String, Broken>()
        scheduler.play(try line(input), on: subject)
        let recorder = make(subject, scheduler).record(demand: demand, scheduler: scheduler)
        scheduler.run()
        let difference = recorder.difference(from: try line(output))
        #expect(difference == nil, sourceLocation: location)
        #expect(scheduler.pending == 0, sourceLocation: location)
    }

    @Test("delay: all events, including the failure, come later by the interval")
    func delay() throws {
        try expect("a-(bc)--|", gives: "---a-(bc)--|") { $0.delay(for: 3, scheduler: $1) }
        try expect("ab#", gives: "--ab#") { $0.delay(for: 2, scheduler: $1) }
        try expect("abc|", gives: "-ab-|", demand: .max(2)) { $0.delay(for: 1, scheduler: $1) }
    }

    @Test("debounce: values followed by silence; the end drops a waiting value")
    func debounce() throws {
        try expect("ab--c---d|", gives: "---b--c--|") { $0.debounce(for: 2, scheduler: $1) }
        try expect("a---b---#", gives: "--a---b-#") { $0.debounce(for: 2, scheduler: $1) }
        try expect("a---b---c---|", gives: "-a---b------|", demand: .max(2)) { $0.debounce(for: 1, scheduler: $1) }
    }

    @Test("throttle: one per interval, the first or the last; the end follows the waiting value")
    func throttle() throws {
        try expect("abcdefg---h|", gives: "a--b--e---h|") {
            $0.throttle(for: 3, scheduler: $1, latest: false)
        }
        try expect("abcdefg----h|", gives: "a--d--g----h|") {
            $0.throttle(for: 3, scheduler: $1, latest: true)
        }
        try expect("ab#", gives: "a--(b#)") { $0.throttle(for: 3, scheduler: $1, latest: true) }
        try expect("a--b--c--|", gives: "a--b-----|", demand: .max(2)) {
            $0.throttle(for: 2, scheduler: $1, latest: true)
        }
    }

    @Test("timeout: ends when nothing arrives for the interval; each value restarts it")
    func timeout() throws {
        try expect("a-b---c|", gives: "a-b--|") { $0.timeout(3, scheduler: $1) }
        try expect("a-b-|", gives: "a-b-|") { $0.timeout(3, scheduler: $1) }
        try expect("----a", gives: "--#") { $0.timeout(2, scheduler: $1, customError: { .once }) }
    }

    @Test("collect by time: the values of an interval, never none; the rest before the end, but not before a failure")
    func collectByTime() throws {
        func joined<P: Publisher>(_ publisher: P) -> Publishers.Map<P, String> where P.Output == [String] {
            publisher.map { $0.last ?? "" }
        }
        let whole = Publishers.TimeGroupingStrategy<VirtualTimeScheduler>.byTime
        try expect("abcde-----fg|", gives: "---d--e-----(g|)") {
            joined($0.collect(whole($1, 3)))
        }
        try expect("ab#", gives: "--#") { joined($0.collect(whole($1, 3))) }
        try expect("abcdef|", gives: "---d--|", demand: .max(1)) {
            joined($0.collect(whole($1, 3)))
        }
    }

    private typealias Grouping = Publishers.TimeGroupingStrategy<VirtualTimeScheduler>

    @Test("collect by time or count: upstream is asked for what fits; groups without demand wait, and so does the end")
    func collectByTimeOrCount() throws {
        let scheduler = VirtualTimeScheduler()
        nonisolated(unsafe) var asked: [Subscribers.Demand] = []
        let source = scheduler.publisher(try Marbles<Int, Never>("1-23456-7|"))
            .handleEvents(receiveRequest: { asked.append($0) })
        let recorder = source.collect(.byTimeOrCount(scheduler, 2.5, 3)).record(demand: .max(2), scheduler: scheduler)
        #expect(asked == [.max(6)])
        scheduler.run()
        // The first group ended by time, the second by count. The value 6 was requested together with these.
        #expect(recorder.values == [[1, 2], [3, 4, 5]] && asked == [.max(6)])
        #expect(recorder.timedHistory.map(\.time.nanoseconds) == [0, 2_500_000_000, 5_000_000_000])
        recorder.request(.max(1))
        scheduler.run()
        #expect(recorder.values == [[1, 2], [3, 4, 5], [6]] && recorder.completion == nil)
        recorder.request(.max(1))
        scheduler.run()
        #expect(asked == [.max(6), .max(3)])
        #expect(recorder.events == [[1, 2], [3, 4, 5], [6], [7]].asEvents(completion: .finished))
    }

    @Test("a group is never longer than the limit, although more was requested than one can hold")
    func collectLimit() {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Never>()
        let recorder = subject.collect(.byTimeOrCount(scheduler, 1, 3)).record(demand: .max(3))
        for value in 1...2 {
            subject.send(value)
            scheduler.advance(by: 2)
        }
        recorder.onValue = { _, _ in .none }
        subject.send(sequence: 3...9, completion: .finished)
        scheduler.run()
        #expect(recorder.values == [[1], [2], [3, 4, 5]])
        recorder.request(.unlimited)
        scheduler.run()
        #expect(recorder.events == [[1], [2], [3, 4, 5], [6, 7, 8], [9]].asEvents(completion: .finished))
    }

    @Test("measureInterval: the time since the previous value, or since the subscription")
    func measureInterval() throws {
        let scheduler = VirtualTimeScheduler()
        scheduler.advance(by: 10)
        let intervals = scheduler.publisher(try Marbles<Int, Never>("--1-2--3|")).measureInterval(using: scheduler)
        let recorder = intervals.record()
        scheduler.run()
        #expect(recorder.difference(from: [.subscription, .value(2), .value(2), .value(3), .finished]) == nil)
    }

    // The cases of the matrix, for operators that request everything from upstream at once.

    private typealias Apply =
        @Sendable (AnyPublisher<Int, Broken>, VirtualTimeScheduler) -> AnyPublisher<Int, Broken>

    private static let eager: [Apply] = [
        { $0.debounce(for: 1, scheduler: $1).eraseToAnyPublisher() },
        { $0.throttle(for: 1, scheduler: $1, latest: true).eraseToAnyPublisher() },
        { $0.collect(.byTime($1, 1)).map { $0.reduce(0, +) }.eraseToAnyPublisher() },
    ]

    @Test("cancelled: upstream at once, and waiting values are not delivered", arguments: 0..<3)
    func cancelled(index: Int) {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Broken>()
        nonisolated(unsafe) var log: [String] = []
        let upstream = subject.handleEvents(
            receiveCancel: { log.append("cancelled") }, receiveRequest: { log.append("\($0)") })
        let recorder = TimeTests.eager[index](upstream.eraseToAnyPublisher(), scheduler).record()
        subject.send(1)
        recorder.cancel()
        recorder.cancel()
        #expect(log == ["unlimited", "cancelled"])
        subject.send(2)
        scheduler.run()
        #expect(recorder.difference(from: [.subscription]) == nil)
        #expect(scheduler.pending == 0)
    }

    @Test("re-entrant: demand from within a value counts, a value sent from within comes later", arguments: 0..<3)
    func reentrant(index: Int) {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Broken>()
        let recorder = TimeTests.eager[index](subject.eraseToAnyPublisher(), scheduler).record(demand: .max(1))
        nonisolated(unsafe) var depth = 0
        recorder.onValue = { recorder, value in
            depth += 1
            #expect(depth == 1)
            recorder.request(.max(1))
            if value < 4 { subject.send(value + 1) } else { subject.send(completion: .failure(.late)) }
            depth -= 1
            return .none
        }
        subject.send(1)
        scheduler.run()
        #expect(recorder.events == [1, 2, 3, 4].asEvents(failure: Broken.self, completion: .failure(.late)))
    }

    @Test("twice: two subscribers do not affect each other's demand or time", arguments: 0..<3)
    func twice(index: Int) {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Broken>()
        let publisher = TimeTests.eager[index](subject.eraseToAnyPublisher(), scheduler)
        let (first, second) = (publisher.record(demand: .max(1)), publisher.record())
        for value in 1...3 {
            subject.send(value)
            scheduler.advance(by: 10)
        }
        subject.send(completion: .finished)
        scheduler.run()
        #expect(first.events == [1].asEvents(failure: Broken.self, completion: .finished))
        #expect(second.events == [1, 2, 3].asEvents(failure: Broken.self, completion: .finished))
    }
}
