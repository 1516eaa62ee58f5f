// Row 10 of the library's guarantees: Sink and Assign; and row 17 on their lifetimes.

import Streams
import StreamsTestSupport
import Testing

@Suite("Row 10: Sink and Assign")
struct SinkTests {
    final class Gauge: @unchecked Sendable {
        var level = 0 { didSet { levels.append(level) } }
        var levels: [Int] = []
    }

    @Test("Row 10: a Sink requests everything, and is finished at the end")
    func sink() {
        let source = ManualSource([1, 2], end: .finished)
        nonisolated(unsafe) var events: [String] = []
        let sink = Subscribers.Sink<Int, TestError>(
            receiveCompletion: { events.append("\($0)") }, receiveValue: { events.append("\($0)") })
        source.subscribe(sink)
        #expect(events == ["1", "2", "finished"])
        #expect(source.subscriptions[0].asked == .unlimited)
        // A Sink that has completed cannot be subscribed again.
        source.subscribe(sink)
        #expect(source.subscriptions[1].cancellations == 1 && source.subscriptions[1].asked == .none)
        #expect(events.count == 3)
    }

    @Test("Row 10: a Sink or an Assign that is offered a second subscription cancels it and keeps the first")
    func secondSubscription() {
        let gauge = Gauge()
        nonisolated(unsafe) var values: [Int] = []
        let sink = Subscribers.Sink<Int, Never>(receiveCompletion: { _ in }, receiveValue: { values.append($0) })
        let assign = Subscribers.Assign(object: gauge, keyPath: \.level)
        let subject = PassthroughSubject<Int, Never>()
        subject.subscribe(sink)
        subject.subscribe(assign)
        let second = ManualSubscription(AnySubscriber<Int, TestError>(), values: [], end: nil)
        sink.receive(subscription: second)
        assign.receive(subscription: second)
        #expect(second.cancellations == 2 && second.asked == .none)
        subject.send(1)
        #expect(values == [1] && gauge.level == 1)
    }

    @Test("Row 10: once cancelled, they receive nothing more, and release what they hold")
    func cancelled() {
        weak var weakGauge: Gauge?
        weak var weakToken: Gauge?
        let subject = PassthroughSubject<Int, Never>()
        let sink: Subscribers.Sink<Int, Never>
        let assign: Subscribers.Assign<Gauge, Int>
        do {
            let (gauge, token) = (Gauge(), Gauge())
            (weakGauge, weakToken) = (gauge, token)
            sink = Subscribers.Sink(receiveCompletion: { _ in }, receiveValue: { token.level = $0 })
            assign = Subscribers.Assign(object: gauge, keyPath: \.level)
            subject.subscribe(sink)
            subject.subscribe(assign)
            subject.send(1)
            #expect(assign.object === gauge && gauge.levels == [1] && token.levels == [1])
            sink.cancel()
            assign.cancel()
            subject.send(2)
            #expect(gauge.levels == [1] && token.levels == [1])
        }
        #expect(weakGauge == nil && weakToken == nil && assign.object == nil)
    }

    @Test("Row 10: assign(to:on:) writes each value until its cancellable is released")
    func assign() {
        let gauge = Gauge()
        let subject = CurrentValueSubject<Int, Never>(0)
        do {
            let cancellable = subject.assign(to: \.level, on: gauge)
            subject.send(1)
            withExtendedLifetime(cancellable) {}
        }
        subject.send(2)
        #expect(gauge.levels == [0, 1])
    }

    @Test("Row 10: at the end an Assign releases its object")
    func assignEnds() {
        weak var weakGauge: Gauge?
        let subject = PassthroughSubject<Int, Never>()
        let cancellable: AnyCancellable
        do {
            let gauge = Gauge()
            weakGauge = gauge
            cancellable = subject.assign(to: \.level, on: gauge)
            #expect(weakGauge != nil)
        }
        #expect(weakGauge != nil)
        subject.send(completion: .finished)
        #expect(weakGauge == nil)
        withExtendedLifetime(cancellable) {}
    }

    @Test("Row 17: a Sink stays alive through its subscription until the end, and is then released")
    func sinkLifetime() {
        weak var weakSink: Subscribers.Sink<Int, Never>?
        weak var weakSubject: PassthroughSubject<Int, Never>?
        nonisolated(unsafe) var values: [Int] = []
        do {
            let subject = PassthroughSubject<Int, Never>()
            weakSubject = subject
            let sink = Subscribers.Sink<Int, Never>(receiveCompletion: { _ in }, receiveValue: { values.append($0) })
            weakSink = sink
            subject.map { $0 + 1 }.filter { $0 > 0 }.removeDuplicates().subscribe(sink)
        }
        #expect(weakSink != nil && weakSubject != nil)
        weakSubject?.send(1)
        #expect(values == [2])
        weakSubject?.send(completion: .finished)
        #expect(weakSink == nil && weakSubject == nil)
    }
}
