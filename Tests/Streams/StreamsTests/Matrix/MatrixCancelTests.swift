// The matrix for cancellation, re-entrancy, and what remains of a stream.

import Streams
import StreamsTestSupport
import Testing

@Suite("The matrix: cancelled, re-entrant, released")
struct MatrixCancelTests {
    // Cancelled

    @Test("cancel reaches upstream at once, and nothing comes after it", arguments: Line.all, [0, 1, 3])
    func cancelled(_ line: Line, after count: Int) throws {
        guard !line.traits.contains(.late) else { return }
        let source = ManualSource()
        let operation = line.on(source)
        let probe = operation.subscribe()
        if count > 0 { probe.request(.unlimited) }
        let upstream = try #require(source.subscriptions.first)
        let intruder = upstream.intruder
        for value in Line.input.prefix(count) { upstream.send(value) }
        operation.stage.waitUntilIdle()
        let events = probe.events
        let hasEnded = upstream.isOver
        probe.cancel()
        #expect(source.subscriptions.allSatisfy { $0.isOver } || line.traits.contains(.shared))
        #expect(hasEnded || upstream.cancellations == 1 || line.traits.contains(.shared))
        probe.cancel()
        probe.request(.max(1))
        if !line.traits.contains(.transparent) {
            _ = intruder?.receive(7)
            intruder?.receive(completion: .finished)
        }
        operation.stage.waitUntilIdle()
        #expect(upstream.cancellations <= 1 || line.traits.contains(.transparent))
        #expect(probe.events == events)
        #expect(probe.breaches == [])
    }

    @Test("after a cancel from within a value nothing happens any more", arguments: Line.all)
    func cancelledWithinAValue(_ line: Line) {
        let source = ManualSource(Line.input, end: .finished)
        let operation = line.on(source)
        let probe = operation.subscribe(asking: .unlimited) {
            $0.cancel()
            return .max(1)
        }
        #expect(probe.valueCount <= 1)
        #expect(probe.text == line.finished.split(separator: " ").prefix(1).joined())
        #expect(probe.breaches == [])
        #expect(source.subscriptions.allSatisfy { $0.isOver } || line.traits.contains(.shared))
    }

    // Re-entrant

    @Test("a request from within a value adds demand, and the next value waits for its turn", arguments: Line.all)
    func requestsWithinAValue(_ line: Line) {
        let source = ManualSource(Line.input, end: .finished)
        let operation = line.on(source)
        let probe = operation.subscribe(asking: .max(1)) {
            $0.request(.max(1))
            return .none
        }
        // An eager operator that receives everything at once has dropped the rest by then; `TimeTests` tests it over
        // time.
        #expect(probe.text == line.finished || line.traits.contains(.eager) && probe.text == "1 |")
        #expect(probe.breaches == [])
    }

    @Test("what is sent from within a value comes after it", arguments: Line.all)
    func sendsWithinAValue(_ line: Line) {
        guard !line.traits.contains(.late) else { return }
        let subject = PassthroughSubject<Int, TestError>()
        let operation = line.on(subject)
        let probe = operation.subscribe()
        var rest = Line.input[...]
        probe.onValue = { _ in
            if let next = rest.popFirst() { subject.send(next) }
            return .none
        }
        probe.request(.unlimited)
        while let next = rest.popFirst() {
            subject.send(next)
            operation.stage.waitUntilIdle()
        }
        subject.send(completion: .finished)
        operation.stage.waitUntilIdle()
        #expect(probe.text == line.finished)
        #expect(probe.breaches == [])
    }

    // Released

    @Test("ended or cancelled, it releases subscriber and upstream", arguments: Line.all, Ending.allCases)
    func released(_ line: Line, by ending: Ending) {
        guard !line.traits.contains(.late) else { return }
        let source = ManualSource()
        let operation = line.on(source)
        weak var weakProbe: Probe?
        weak var weakUpstream: ManualSubscription?
        var held: (any Subscription)?
        do {
            let probe = operation.subscribe()
            let upstream = source.subscriptions[0]
            probe.request(.unlimited)
            upstream.send(1)
            operation.stage.waitUntilIdle()
            switch ending {
            case .finished: upstream.send(completion: .finished)
            case .failed: upstream.send(completion: .failure(TestError()))
            case .cancelled: probe.cancel()
            }
            operation.stage.waitUntilIdle()
            // Operators that retry have another subscription by now.
            if source.subscriptions.count > 1 { probe.cancel() }
            (weakProbe, weakUpstream) = (probe, upstream)
            held = probe.subscription
            probe.letGoOfSubscription()
        }
        source.releaseSubscriptions()
        #expect(weakProbe == nil)
        let mayHold = line.traits.contains(.transparent) || line.traits.contains(.shared) && ending == .cancelled
        #expect(weakUpstream == nil || mayHold)
        withExtendedLifetime((held, operation)) {}
    }

    @Test(
        "row 17: a publisher that gave no subscription, and releases its subscriber, keeps nothing alive",
        arguments: Line.all)
    func releasedWithoutSubscription(_ line: Line) {
        // `prefix(untilOutputFrom:)` has a subject as its second publisher, which lives, with its subscribers, until it
        // ends.
        guard !line.traits.contains(.late), line.name != "prefix until output from" else { return }
        let source = Unready()
        weak var weakProbe: Probe?
        do {
            let probe = line.on(source).subscribe()
            // Some operators hand out their own subscription before they have one from upstream.
            probe.cancel()
            probe.letGoOfSubscription()
            weakProbe = probe
        }
        source.releaseSubscriber()
        #expect(weakProbe == nil)
    }

    enum Ending: CaseIterable {
        case finished, failed, cancelled
    }
}
