// What a subject keeps for a subscriber that is busy with a value: what was requested, and not much more.

import Streams
import StreamsTestSupport
import Synchronization
import Testing

/// Counts its instances.
private final class Token: Sendable {
    static let count = Atomic<Int>(0)
    let number: Int

    init(_ number: Int) {
        self.number = number
        Token.count.add(1, ordering: .relaxed)
    }

    deinit { Token.count.subtract(1, ordering: .relaxed) }
}

@Suite("A busy subscriber", .serialized)
struct BusyTests {
    /// Sends 10,000 values while the subscriber is busy with the first.
    /// - Returns: the values that the subscriber received, and the number of values that existed before it returned.
    private func flood<S: Subject & Sendable>(
        _ subject: S, demand: Subscribers.Demand
    ) -> (recorder: Recorder<Int, Never>, kept: Int) where S.Output == Token, S.Failure == Never {
        let recorder = Recorder<Int, Never>(demand: demand)
        nonisolated(unsafe) var kept = 0
        recorder.onValue = { recorder, value in
            guard value == 1 else { return .none }
            let before = Token.count.load(ordering: .relaxed)
            for number in 2...10_000 { subject.send(Token(number)) }
            kept = Token.count.load(ordering: .relaxed) - before
            return .none
        }
        subject.map(\.number).subscribe(recorder)
        subject.send(Token(1))
        return (recorder, kept)
    }

    @Test("a PassthroughSubject keeps 1,024 values beyond the demand for a busy subscriber, and drops others")
    func passthrough() {
        let subject = PassthroughSubject<Token, Never>()
        let (recorder, kept) = flood(subject, demand: .max(3))
        #expect(recorder.values == [1, 2, 3])
        #expect(kept >= 1024 && kept <= 1024 + 3)
        subject.send(completion: .finished)
        #expect(recorder.completion == .finished)
    }

    @Test("a CurrentValueSubject keeps the latest of the others")
    func currentValue() {
        let subject = CurrentValueSubject<Token, Never>(Token(0))
        let (recorder, kept) = flood(subject, demand: .max(3))
        #expect(recorder.values == [0, 1, 2] && kept <= 1024 + 5)
        recorder.request(.max(1))
        #expect(recorder.values == [0, 1, 2, 10_000])
        subject.send(completion: .finished)
        #expect(recorder.completion == .finished)
    }

    @Test("requested values are kept, however many")
    func unlimited() {
        let subject = PassthroughSubject<Token, Never>()
        #expect(flood(subject, demand: .unlimited).recorder.values == Array(1...10_000))
    }

    @Test("demand from within a value adds up, and does not count against the limit")
    func demandFromWithin() {
        let subject = PassthroughSubject<Int, Never>()
        let recorder = subject.record(demand: .max(1))
        recorder.onValue = { recorder, value in
            if value == 1 {
                for _ in 0..<5000 { recorder.request(.max(1)) }
                for number in 2...6000 { subject.send(number) }
            }
            return .none
        }
        subject.send(1)
        #expect(recorder.values == Array(1...5001))
    }

    @Test("cancel while the end is about to be delivered prevents its delivery")
    func cancelBeforeEnd() {
        nonisolated(unsafe) var recorder: Recorder<Int, Never>?
        let subject = PassthroughSubject<Int, Never>()
        recorder = subject.handleEvents(receiveCancel: { recorder?.cancel() }).prefix(1).record()
        subject.send(1)
        #expect(recorder?.values == [1] && recorder?.completion == nil)
        recorder = nil
    }
}
