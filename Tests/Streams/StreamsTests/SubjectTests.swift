// Rows 13 and 17 of the library's guarantees: PassthroughSubject, CurrentValueSubject, and lifetimes.

import Streams
import StreamsTestSupport
import Testing

@Suite("Subjects and lifetimes")
struct SubjectTests {
    @Test("row 13: without demand a PassthroughSubject's value is dropped for that subscriber")
    func passthrough() {
        let subject = PassthroughSubject<Int, Oops>()
        let slow = subject.record(demand: .none)
        let fast = subject.record()
        subject.send(1)
        slow.request(.max(1))
        subject.send(sequence: 2...3, completion: .failure(Oops()))
        subject.send(4)
        subject.send(completion: .finished)
        #expect(slow.events == [2].asEvents(failure: Oops.self, completion: .failure(Oops())))
        #expect(fast.events == [1, 2, 3].asEvents(failure: Oops.self, completion: .failure(Oops())))
        #expect(subject.record().events == [].asEvents(failure: Oops.self, completion: .failure(Oops())))
    }

    @Test("row 13: of values without demand, a CurrentValueSubject keeps the latest")
    func currentValue() {
        let subject = CurrentValueSubject<Int, Never>(0)
        let slow = subject.record(demand: .none)
        let fast = subject.record()
        subject.send(sequence: 1...2)
        subject.value += 1
        #expect(subject.value == 3 && slow.events == [] && fast.values == [0, 1, 2, 3])
        slow.request(.max(2))
        #expect(slow.values == [3])
        subject.send(4)
        subject.send(completion: .finished)
        subject.send(5)
        #expect(slow.events == [3, 4].asEvents(completion: .finished))
        #expect(subject.value == 4)
        #expect(subject.record().events == [].asEvents(completion: .finished))
    }

    @Test("row 13: a value sent from within another comes after it, for each subscriber in the same order")
    func reentrant() {
        let subject = PassthroughSubject<Int, Never>()
        let first = subject.record()
        first.onValue = { _, value in
            if value < 3 { subject.send(value + 1) }
            return .none
        }
        let second = subject.record()
        subject.send(1)
        #expect(first.values == [1, 2, 3])
        // As in Combine, the second subscriber receives a value sent during another's delivery before that other value.
        #expect(second.values.sorted() == [1, 2, 3])
    }

    @Test("row 13: a subject requests everything from its upstream when a subscriber requests")
    func upstream() {
        nonisolated(unsafe) var asked: [Subscribers.Demand] = []
        let subject = PassthroughSubject<Int, Never>()
        let connection = (1...3).publisher.handleEvents(receiveRequest: { asked.append($0) }).subscribe(subject)
        #expect(asked == [])
        let recorder = subject.record(demand: .max(2))
        #expect(asked == [.unlimited] && recorder.events == [1, 2].asEvents(completion: .finished))
        withExtendedLifetime(connection) {}
    }

    @Test("row 17: an AnyCancellable leaving scope cancels")
    func leavingScope() {
        let subject = PassthroughSubject<Int, Never>()
        nonisolated(unsafe) var values: [Int] = []
        do {
            let cancellable = subject.sink { values.append($0) }
            subject.send(1)
            withExtendedLifetime(cancellable) {}
        }
        subject.send(2)
        var set: Set<AnyCancellable> = []
        subject.sink { values.append($0) }.store(in: &set)
        subject.send(3)
        set = []
        subject.send(4)
        #expect(values == [1, 3])
    }

    @Test("row 17: a Sink lives by its subscription, and its subject with it, until completion", arguments: 0..<3)
    func sinkLives(kind: Int) {
        switch kind {
        case 0: expectLifetime { PassthroughSubject<Int, Never>() }
        case 1: expectLifetime { CurrentValueSubject<Int, Never>(0) }
        default: expectLifetime { BufferSubject<Int, Never>() }
        }
    }

    private func expectLifetime<S: Subject>(_ make: () -> S) where S.Output == Int, S.Failure == Never {
        weak var subject: S?
        weak var sink: Subscribers.Sink<Int, Never>?
        nonisolated(unsafe) var events: [Subscribers.Event<Int, Never>] = []
        do {
            let (madeSubject, madeSink) = (
                make(),
                Subscribers.Sink<Int, Never>(
                    receiveCompletion: { events.append(.completion($0)) }, receiveValue: { events.append(.value($0)) })
            )
            madeSubject.subscribe(madeSink)
            (subject, sink) = (madeSubject, madeSink)
        }
        #expect(subject != nil && sink != nil)
        subject?.send(1)
        #expect(events.last == .value(1))
        subject?.send(completion: .finished)
        #expect(subject == nil && sink == nil)
        #expect(events.last == .completion(.finished))
    }
}
