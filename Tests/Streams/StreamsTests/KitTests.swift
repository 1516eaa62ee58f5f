// Row 23: operators written with the kit, using only its public API.

import Foundation
import Streams
import StreamsTestSupport
import Testing

/// Groups `size` values into a list, and requests as many values as the requested lists hold: demand grows on its way
/// upstream.
private struct Chunks<Element, Failure: Error>: OperatorBehavior {
    let size: Int
    var list: [Element] = []

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<[Element], Failure>) {
        outlet.requestUpstream(demand * size)
    }

    mutating func receive(_ input: Element, _ outlet: Outlet<[Element], Failure>) {
        list.append(input)
        guard list.count == size else { return }
        let complete = list
        list = []
        outlet.send(complete)
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ outlet: Outlet<[Element], Failure>) {
        if case .finished = completion, !list.isEmpty, outlet.demand > .none { outlet.send(list) }
        outlet.send(completion: completion)
    }
}

/// Lets every nth value pass, as in the documentation of `OperatorBehavior`.
private struct EveryNth<Input, Failure: Error>: OperatorBehavior {
    let n: Int
    var seen = 0

    mutating func receive(_ input: Input, _ outlet: Outlet<Input, Failure>) {
        seen += 1
        if seen % n == 0 { outlet.send(input) } else { outlet.requestUpstream(.max(1)) }
    }
}

/// Repeats each word, ends at a certain one, and reports when it stops; requests the first word on its own initiative,
/// and then the next one when nothing waits.
private struct Stutter<Failure: Error>: OperatorBehavior {
    let last: String
    let stopped: () -> Void
    var waiting: [String] = []
    var hasAsked = false

    mutating func start(_ outlet: Outlet<String, Never>) { ask(outlet) }

    private mutating func ask(_ outlet: Outlet<String, Never>) {
        guard waiting.isEmpty, !hasAsked else { return }
        hasAsked = true
        outlet.requestUpstream(.max(1))
    }

    mutating func receive(_ input: String, _ outlet: Outlet<String, Never>) {
        hasAsked = false
        waiting += [input, input]
        deliver(outlet)
        if input == last { outlet.send(completion: .finished) }
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ outlet: Outlet<String, Never>) {
        outlet.send(completion: .finished)
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<String, Never>) { deliver(outlet) }

    private mutating func deliver(_ outlet: Outlet<String, Never>) {
        while outlet.demand > .none, !outlet.isOver, !waiting.isEmpty { outlet.send(waiting.removeFirst()) }
        ask(outlet)
    }

    func stop() { stopped() }
}

extension Publisher {
    fileprivate func chunks(_ size: Int) -> some Publisher<[Output], Failure> {
        Publishers.Custom(self, name: "Chunks") { Chunks(size: size) }
    }

    fileprivate func every(_ n: Int) -> some Publisher<Output, Failure> {
        Publishers.Custom(self, name: "EveryNth") { EveryNth(n: n) }
    }
}

private enum Broken: Error { case once }

@Suite("row 23: a custom operator: its author defines what happens to events, and nothing for thread safety")
struct KitTests {
    @Test("demand is up to the author")
    func demand() {
        nonisolated(unsafe) var asked: [Subscribers.Demand] = []
        let recorder = (1...7).publisher.handleEvents(receiveRequest: { asked.append($0) }).chunks(3)
            .record(demand: .max(2))
        #expect(recorder.values == [[1, 2, 3], [4, 5, 6]] && asked == [.max(6)])
        recorder.request(.max(1))
        #expect(recorder.events == [[1, 2, 3], [4, 5, 6], [7]].asEvents(completion: .finished))
        #expect(asked == [.max(6), .max(3)])
        #expect("\(recorder.subscription!)" == "Chunks")
    }

    @Test("an event that passes nothing on requests one more in its place")
    func everyNth() {
        let recorder = (1...100).publisher.every(10).record(demand: .max(3))
        #expect(recorder.difference(from: [.subscription, .value(10), .value(20), .value(30)]) == nil)
        recorder.request(.unlimited)
        #expect(recorder.values == Array(stride(from: 10, through: 100, by: 10)) && recorder.completion == .finished)
    }

    @Test("start, stop, another failure, and a custom end that cancels upstream")
    func stutter() {
        let subject = PassthroughSubject<String, Broken>()
        nonisolated(unsafe) var log: [String] = []
        let upstream = subject.handleEvents(receiveCancel: { log.append("cancelled") })
        let words = Publishers.Custom(upstream, name: "Stutter") {
            Stutter<Broken>(last: "so", stopped: { log.append("stopped") })
        }
        let recorder = words.record(demand: .max(3))
        subject.send("as")
        subject.send("it")
        subject.send("lost, as nothing is asked for")
        #expect(recorder.values == ["as", "as", "it"])
        recorder.request(.unlimited)
        subject.send("so")
        #expect(recorder.events == ["as", "as", "it", "it", "so", "so"].asEvents(completion: .finished))
        #expect(log == ["cancelled", "stopped"])
        let failing = words.record()
        subject.send(completion: .failure(.once))
        #expect(failing.events == [.completion(.finished)])
    }

    @Test("what the subscriber does from within a value is seen when it has returned")
    func reentrant() {
        let subject = PassthroughSubject<Int, Never>()
        let recorder = subject.every(1).record(demand: .max(1))
        nonisolated(unsafe) var isReceiving = false
        recorder.onValue = { recorder, value in
            #expect(!isReceiving)
            isReceiving = true
            recorder.request(.max(1))
            if value < 5 { subject.send(value + 1) } else { recorder.cancel() }
            isReceiving = false
            return .none
        }
        subject.send(1)
        subject.send(9)
        #expect(recorder.difference(from: [.subscription] + (1...5).map { .value($0) }) == nil)
    }

    @Test("from many threads, events come one after another, and no requested one is lost")
    func threads() {
        let subject = PassthroughSubject<Int, Never>()
        let recorder = subject.every(2).record(demand: .none)
        nonisolated(unsafe) var isReceiving = false
        recorder.onValue = { _, _ in
            #expect(!isReceiving)
            isReceiving = true
            defer { isReceiving = false }
            return .none
        }
        recorder.request(.unlimited)
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for value in 0..<1000 { subject.send(thread * 1000 + value) }
        }
        #expect(recorder.values.count == 4000)
    }
}
