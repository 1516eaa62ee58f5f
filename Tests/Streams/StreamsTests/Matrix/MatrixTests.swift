// The matrix: every operator in every case that all operators must handle.

import Streams
import Testing

@Suite("The matrix")
struct MatrixTests {
    // Before subscription

    @Test("nothing happens before a subscriber comes, and nothing before it has its subscription", arguments: Line.all)
    func beforeSubscription(_ line: Line) {
        let source = ManualSource(Line.input)
        let operation = line.on(source)
        #expect(source.subscriptions.isEmpty)
        let probe = operation.subscribe()
        #expect(probe.subscription != nil && probe.valueCount == 0 && probe.breaches == [])
        #expect(source.subscriptions.count == (line.traits.contains(.late) ? 0 : 1))
    }

    @Test("what upstream sends without a subscription is ignored, and demand has no effect", arguments: Line.all)
    func withoutSubscription(_ line: Line) {
        guard line.traits.isDisjoint(with: [.transparent, .late]) else { return }
        let source = Unready()
        let operation = line.on(source)
        let probe = operation.subscribe()
        _ = source.subscriber?.receive(1)
        source.subscriber?.receive(completion: .finished)
        operation.stage.waitUntilIdle()
        #expect(probe.breaches.filter { !$0.contains("before the subscription") } == [])
        probe.request(.unlimited)
        operation.stage.waitUntilIdle()
        probe.cancel()
    }

    // Finished, failed

    @Test("the output for values and their end", arguments: Line.all)
    func finished(_ line: Line) {
        #expect(run(line, ManualSource(Line.input, end: .finished)) == line.finished)
    }

    @Test("the output for values and a failure", arguments: Line.all)
    func failed(_ line: Line) {
        #expect(run(line, ManualSource(Line.input, end: .failure(TestError()))) == line.failed)
    }

    @Test("the output for the end alone, without demand", arguments: Line.all)
    func empty(_ line: Line) {
        let source = ManualSource([], end: .finished)
        let operation = line.on(source)
        let probe = operation.subscribe()
        if probe.text != line.empty { probe.request(.unlimited) }
        operation.stage.waitUntilIdle()
        #expect(probe.text == line.empty)
        #expect(probe.breaches == [])
    }

    private func run(_ line: Line, _ source: ManualSource) -> String {
        let operation = line.on(source)
        let probe = operation.subscribe(asking: .unlimited)
        #expect(probe.breaches == [])
        #expect(source.subscriptions.allSatisfy { $0.isOver })
        return probe.text
    }

    @Test("nothing comes after the end, even if upstream continues", arguments: Line.all)
    func afterTheEnd(_ line: Line) {
        guard line.traits.isDisjoint(with: [.transparent, .late]) else { return }
        let source = ManualSource()
        let operation = line.on(source)
        let probe = operation.subscribe()
        probe.request(.unlimited)
        let intruders = source.subscriptions.compactMap(\.intruder)
        for value in Line.input { source.subscriptions.first?.send(value) }
        source.subscriptions.first?.send(completion: .finished)
        operation.stage.waitUntilIdle()
        let events = probe.events
        for intruder in intruders {
            _ = intruder.receive(7)
            intruder.receive(completion: .failure(TestError()))
        }
        operation.stage.waitUntilIdle()
        #expect(probe.events == events)
        #expect(probe.breaches == [])
    }

    // Twice

    @Test("a second subscription from upstream is cancelled, and the first continues", arguments: Line.all)
    func secondSubscription(_ line: Line) throws {
        guard !line.traits.contains(.late) else { return }
        let source = ManualSource()
        let operation = line.on(source)
        let probe = operation.subscribe()
        let first = try #require(source.subscriptions.first)
        guard let intruder = first.intruder else { return }
        let second = ManualSubscription(intruder, values: [8, 9], end: .finished)
        intruder.receive(subscription: second)
        #expect(second.cancellations == 1)
        #expect(second.asked == .none || line.traits.contains(.transparent))
        #expect(first.cancellations == 0)
        probe.request(.unlimited)
        for value in Line.input { first.send(value) }
        first.send(completion: .finished)
        operation.stage.waitUntilIdle()
        #expect(probe.text == line.finished)
        #expect(probe.breaches == [])
    }

    @Test("two subscribers are independent of each other", arguments: Line.all)
    func twoSubscribers(_ line: Line) {
        guard !line.traits.contains(.shared) else { return }
        let source = ManualSource(Line.input, end: .finished)
        let operation = line.on(source)
        let probes = [
            operation.subscribe(asking: .max(1)), operation.subscribe(), operation.subscribe(asking: .unlimited),
        ]
        probes[1].cancel()
        #expect(probes[2].text == line.finished)
        probes[0].request(.unlimited)
        operation.stage.waitUntilIdle()
        #expect(probes[0].text == line.finished || line.traits.contains(.lossy))
        #expect(probes[1].valueCount == 0)
        #expect(probes.flatMap(\.breaches) == [])
    }

    // Limited demand

    @Test("demand is never exceeded, nor invented, however it is given", arguments: Line.all, [false, true])
    func limitedDemand(_ line: Line, isReturned: Bool) {
        let source = ManualSource(Line.input, end: .finished)
        let operation = line.on(source)
        let probe = Probe()
        var tooMuch: [String] = []
        source.onRequest = { subscription in
            if !line.allows(subscription.outstanding, for: probe.outstanding) {
                tooMuch.append("\(subscription.outstanding) for \(probe.outstanding)")
            }
        }
        if isReturned { probe.onValue = { _ in .max(1) } }
        if operation.isEager { probe.onSubscription = { $0.request(.max(1)) } }
        operation.attach(probe)
        operation.stage.waitUntilIdle()
        #expect(source.subscriptions.allSatisfy { line.allows($0.asked, for: .none) })
        for _ in 0...Line.input.count * 2 {
            probe.request(.max(1))
            operation.stage.waitUntilIdle()
            if isReturned { break }
        }
        #expect(probe.text == line.finished || line.traits.contains(isReturned ? .eager : .lossy))
        #expect(probe.breaches == [])
        #expect(tooMuch == [])
    }

    @Test("no demand, no value; demand of none asks for nothing", arguments: Line.all)
    func noDemand(_ line: Line) {
        let source = ManualSource(Line.input)
        let operation = line.on(source)
        let probe = operation.subscribe()
        let asked = source.subscriptions.map(\.asked)
        probe.request(.none)
        operation.stage.waitUntilIdle()
        #expect(probe.valueCount == 0)
        #expect(source.subscriptions.map(\.asked) == asked)
        #expect(asked.allSatisfy { line.allows($0, for: .none) })
    }
}
