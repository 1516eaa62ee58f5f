// Row 21 of the library's guarantees: handleEvents, print, debug, breakpoint.

import Streams
import StreamsTestSupport
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Musl
#endif

@Suite("Row 21: observing events")
struct DebugTests {
    /// Collects the output.
    final class Lines: TextOutputStream, @unchecked Sendable {
        private(set) var text = ""
        func write(_ string: String) { text += string }
        var lines: [String] { text.split(separator: "\n").map(String.init) }
    }

    /// Subscription, request, value with returned demand, value, cancel; then one that fails.
    private func exercise<P: Publisher<Int, TestError>>(_ make: (PassthroughSubject<Int, TestError>) -> P) {
        let subject = PassthroughSubject<Int, TestError>()
        let recorder = Recorder<Int, TestError>()
        recorder.onValue = { _, value in value == 1 ? .max(2) : .none }
        make(subject).subscribe(recorder)
        recorder.request(.max(1))
        subject.send(sequence: 1...2)
        recorder.cancel()
        let second = make(subject).record()
        subject.send(completion: .failure(TestError()))
        _ = make(subject).record(demand: .none)
        withExtendedLifetime(second) {}
    }

    @Test("handleEvents: all five kinds of event")
    func handleEvents() {
        nonisolated(unsafe) var events: [String] = []
        exercise {
            $0.handleEvents(
                receiveSubscription: { events.append("subscription \($0)") },
                receiveOutput: { events.append("\($0)") },
                receiveCompletion: { _ in events.append("end") },
                receiveCancel: { events.append("cancel") },
                receiveRequest: { events.append("\($0)") })
        }
        #expect(
            events == [
                "subscription PassthroughSubject", "max(1)", "1", "max(2)", "2", "cancel",
                "subscription PassthroughSubject", "unlimited", "end", "subscription Empty", "end",
            ])
    }

    @Test("print: a line for each event, with its prefix")
    func prints() {
        let lines = Lines()
        exercise { $0.print("here", to: lines) }
        #expect(
            lines.lines == [
                "here: receive subscription: (PassthroughSubject)", "here: request max: (1)",
                "here: receive value: (1)", "here: request max: (2) (synchronous)", "here: receive value: (2)",
                "here: receive cancel", "here: receive subscription: (PassthroughSubject)",
                "here: request unlimited", "here: receive error: (TestError())",
                "here: receive subscription: (Empty)", "here: receive error: (TestError())",
            ])
        let plain = Lines()
        _ = Just(1).print(to: plain).record()
        #expect(
            plain.lines == [
                "receive subscription: (Just)", "request unlimited", "receive value: (1)", "receive finished",
            ])
    }

    @Test("debug: a line for each event, with its place in the source")
    func debugs() {
        let lines = Lines()
        exercise { $0.debug(prefix: "prices", to: lines) }
        let line = #line - 1
        #expect(
            lines.lines
                == [
                    "subscription PassthroughSubject", "request max(1)", "value 1", "request max(2)", "value 2",
                    "cancel",
                    "subscription PassthroughSubject", "request unlimited", "failure(TestError())",
                    "subscription Empty", "failure(TestError())",
                ].map { "prices debugs():\(line) \($0)" })
        let plain = Lines()
        _ = Just(1).debug(function: "f", line: 3, to: plain).record()
        #expect(plain.lines == ["f:3 subscription Just", "f:3 request unlimited", "f:3 value 1", "f:3 finished"])
    }

    @Test("print: events caused while it writes come after it, and beyond a limit are only counted")
    func printsWithinPrint() {
        final class Echo: TextOutputStream, @unchecked Sendable {
            var lines: [String] = []
            var onThird: () -> Void = {}
            func write(_ string: String) {
                lines.append(string)
                if lines.count == 3 { onThird() }
            }
        }
        let echo = Echo()
        let subject = PassthroughSubject<Int, TestError>()
        let recorder = subject.print(to: echo).record(demand: .max(1))
        echo.onThird = { for _ in 1...2000 { recorder.request(.max(1)) } }
        subject.send(0)
        echo.onThird = {}
        #expect(recorder.values == [0])
        #expect(echo.lines.count == 3 + 1024 + 1)
        #expect(echo.lines[2...3] == ["receive value: (0)\n", "request max: (1)\n"])
        #expect(echo.lines.last == "976 lines were omitted\n")
    }

    @Test("breakpoint: raises SIGTRAP for the selected event")
    func breakpoints() async {
        #expect([1, 2].publisher.breakpoint(receiveOutput: { $0 == 3 }).record().values == [1, 2])
        await #expect(processExitsWith: .signal(SIGTRAP)) {
            _ = [1, 2].publisher.breakpoint(receiveOutput: { $0 == 2 }).record()
        }
        await #expect(processExitsWith: .signal(SIGTRAP)) {
            _ = Just(1).breakpoint(receiveSubscription: { _ in true }).record()
        }
        await #expect(processExitsWith: .signal(SIGTRAP)) {
            _ = Fail<Int, TestError>(error: TestError()).breakpointOnError().record()
        }
    }
}
