// Row 22: the test helpers themselves: marbles, the virtual clock, the recorder.

import Streams
import StreamsTestSupport
import Testing

private enum Broken: Error { case once }

@Suite("row 22: test helpers: Event, asEvents, send(sequence:completion:), sink(event:), a virtual-time scheduler")
struct MarblesTests {
    @Test("parsing and drawing agree", arguments: ["", "|", "-a-b|", "--(ab|)", "a(bc)-d-#", "-----a", "(a#)"])
    func roundTrip(text: String) throws {
        let marbles = try Marbles<String, Broken>(text, failure: .once)
        #expect(marbles.description == text)
    }

    @Test("each sign is at its frame, and spaces are ignored")
    func read() throws {
        let marbles = try Marbles<Int, Never>("- 1 (23) -|")
        let expected: [(Int, Subscribers.Event<Int, Never>)] = [
            (1, .value(1)), (2, .value(2)), (2, .value(3)), (4, .completion(.finished)),
        ]
        #expect(marbles.marks == expected.map { Marbles.Mark(frame: $0.0, event: $0.1) })
        let named = try Marbles<Int, Never>("ab", values: ["a": 100, "b": 200])
        #expect(named.marks.map(\.event) == [.value(100), .value(200)])
        #expect(named.description == "??   ? = 100, 200")
    }

    @Test("an invalid line is reported as such", arguments: ["a|b", "(a", "a)", "((a))", "(a-b)", "#", "|-"])
    func unreadable(text: String) {
        #expect(throws: MarbleError.self) { try Marbles<String, Broken>(text) }
    }

    @Test("an unknown sign is reported as such")
    func unknownSign() {
        #expect(throws: MarbleError.self) { try Marbles<Int, Never>("-x|") }
    }

    @Test("a publisher of marbles delivers on time, and late without demand")
    func publisher() throws {
        let scheduler = VirtualTimeScheduler()
        let marbles = try Marbles<String, Broken>("-a-(bc)-#", failure: .once)
        let eager = scheduler.publisher(marbles).record(scheduler: scheduler)
        let slow = scheduler.publisher(marbles).record(demand: .max(2), scheduler: scheduler)
        scheduler.schedule(after: .zero.advanced(by: 7)) { slow.request(.max(1)) }
        scheduler.run()
        #expect(eager.difference(from: marbles) == nil)
        #expect(slow.difference(from: try Marbles("-a-b---(c#)", failure: .once)) == nil)
        #expect(scheduler.now == .zero.advanced(by: 7))
    }

    @Test("a subject plays marbles, and handles values without demand as usual")
    func hot() throws {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Never>()
        let recorder = subject.record(demand: .max(2), scheduler: scheduler)
        scheduler.play(try Marbles("12-3-|"), on: subject, frame: .milliseconds(10))
        scheduler.run()
        #expect(recorder.difference(from: try Marbles("12---|"), frame: .milliseconds(10)) == nil)
    }

    @Test("the clock stands still until it is advanced; what is due at the same time keeps its order")
    func virtualTime() {
        let scheduler = VirtualTimeScheduler()
        nonisolated(unsafe) var log: [String] = []
        @Sendable func note(_ name: String) { log.append("\(name)@\(scheduler.now.nanoseconds)") }
        for index in 0..<20 {
            scheduler.schedule(after: VirtualTime(nanoseconds: 50 - index % 3 * 10)) { note("t\(index)") }
        }
        scheduler.schedule { note("now") }
        let repeated = scheduler.schedule(after: VirtualTime(nanoseconds: 100), interval: .nanoseconds(50)) {
            note("again")
            scheduler.schedule { note("then") }
        }
        #expect(log == [] && scheduler.now == .zero && scheduler.pending == 22)
        scheduler.advance()
        #expect(log == ["now@0"])
        log = []
        scheduler.advance(by: .nanoseconds(60))
        let expected = [30, 40, 50].flatMap { time in
            (0..<20).filter { 50 - $0 % 3 * 10 == time }.map { "t\($0)@\(time)" }
        }
        #expect(log == expected && scheduler.now.nanoseconds == 60)
        log = []
        scheduler.advance(to: VirtualTime(nanoseconds: 150))
        repeated.cancel()
        scheduler.run()
        #expect(log == ["again@100", "then@100", "again@150", "then@150"])
        #expect(scheduler.pending == 0 && scheduler.now.nanoseconds == 150)
    }

    @Test("the recorder reports where a history differs")
    func difference() {
        let recorder = [1, 2, 3].publisher.record()
        #expect(recorder.difference(from: [.subscription, .value(1), .value(2), .value(3), .finished]) == nil)
        let text = recorder.difference(from: [.subscription, .value(1), .value(5)])
        #expect(
            text == """
                The histories differ at event 3:
                  received: subscription 1 ▶2 3 finished
                  expected: subscription 1 ▶5
                """)
        #expect(recorder.difference(from: [.subscription])?.contains("expected: subscription ▶nothing") == true)
        #expect(recorder.completion == .finished)
    }

    @Test("a difference of marbles shows both lines, and events between frames")
    func marbleDifference() throws {
        let scheduler = VirtualTimeScheduler()
        let subject = PassthroughSubject<Int, Never>()
        let recorder = subject.record(scheduler: scheduler)
        scheduler.advance(by: .milliseconds(1500))
        subject.send(7)
        let text = recorder.difference(from: try Marbles("-7"))
        #expect(text == "The events differ:\n  received: -7\n  expected: -7\n  between frames, at 1.5 s: 7")
        #expect(recorder.difference(from: try Marbles("7"))?.hasPrefix("The events differ:\n  received: -7\n") == true)
    }

    @Test("events as values")
    func events() {
        let subject = PassthroughSubject<Int, Broken>()
        nonisolated(unsafe) var events: [Subscribers.Event<Int, Broken>] = []
        let cancellable = subject.sink(event: { events.append($0) })
        subject.send(sequence: [1, 2], completion: .failure(.once))
        #expect(events == [1, 2].asEvents(failure: Broken.self, completion: .failure(.once)))
        #expect("\(events)" == "[1, 2, failure(once)]")
        cancellable.cancel()
    }
}
