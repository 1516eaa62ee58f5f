// Row 20, on a virtual clock: delay, debounce, throttle, timeout, measureInterval, collect by time.

import Streams
import StreamsTestSupport
import Testing

private enum Broken: Error { case once, late }

private typealias Line = Marbles<String, Broken>

private func line(_ text: String) throws -> Line { try Marbles(text, failure: .once) }

@Suite("row 20: delay, debounce, throttle, timeout on a virtual clock")
struct TimeTests {
    /// What becomes of one line by an operator.
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
        #expect(recorder.difference(from: try line(output)) == nil, sourceLocation: location)
        #expect(scheduler.pending == 0, sourceLocation: location)
    }

    @Test("delay: all events, the failure included, come later by the interval")
    func delay() throws {
        try expect("a-(bc)--|", gives: "---a-(bc)--|") { $0.delay(for: 3, scheduler: $1) }
        try expect("ab#", gives: "--ab#") { $0.delay(for: 2, scheduler: $1) }
        try expect("abc|", gives: "-ab-|", demand: .max(2)) { $0.delay(for: 1, scheduler: $1) }
    }

    @Test("debounce: what is followed by nothing for a while; the end drops what waits")
    func debounce() throws {
        try expect("ab--c---d|", gives: "---b--c--|") { $0.debounce(for: 2, scheduler: $1) }
        try expect("a---b---#", gives: "--a---b-#") { $0.debounce(for: 2, scheduler: $1) }
        try expect("a---b---c---|", gives: "-a---b------|", demand: .max(2)) { $0.debounce(for: 1, scheduler: $1) }
    }

    @Test("throttle: one in each interval, the first or the last; the end comes behind what waits")
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

    @Test("timeout: ends when nothing comes for the interval; each value begins it anew")
    func timeout() throws {
        try expect("a-b---c|", gives: "a-b--|") { $0.timeout(3, scheduler: $1) }
        try expect("a-b-|", gives: "a-b-|") { $0.timeout(3, scheduler: $1) }
        try expect("----a", gives: "--#") { $0.timeout(2, scheduler: $1, customError: { .once }) }
    }
}
