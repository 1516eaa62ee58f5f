// Support for the main actor: sink(on:), and assign(to:) to one of its properties.

import Dispatch
import Streams
import Testing

@Suite("The main actor", .timeLimit(.minutes(10)))
@MainActor struct MainActorTests {
    final class Model: ObservableObject {
        @Published var number = 0
        var numbers: [Int] = []
        var end: Subscribers.Completion<Never>?
    }

    @Test("sink(on:) receives values and the end there, in order, whatever thread they come from")
    func sink() async {
        let model = Model()
        let (ended, continuation) = AsyncStream.makeStream(of: Void.self)
        let subject = PassthroughSubject<Int, Never>()
        let cancellable = subject.sink(
            on: .shared,
            receiveCompletion: {
                model.end = $0
                continuation.finish()
            }, receiveValue: { model.numbers.append($0) })
        DispatchQueue.global().async {
            for number in 1...100 { subject.send(number) }
            subject.send(completion: .finished)
        }
        for await _ in ended {}
        #expect(model.numbers == Array(1...100) && model.end == .finished)
        cancellable.cancel()
    }

    @Test("assign(to:) of a main-actor object takes values that arrive there, at once")
    func assign() {
        let (model, subject) = (Model(), PassthroughSubject<Int, Never>())
        subject.assign(to: &model.$number)
        subject.send(1)
        #expect(model.number == 1)
    }

    @Test("assign(to:) of a main-actor object traps if values arrive on another thread")
    func assignElsewhere() async {
        await #expect(processExitsWith: .failure) { @MainActor in
            let (model, subject) = (Model(), PassthroughSubject<Int, Never>())
            subject.assign(to: &model.$number)
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async {
                    subject.send(1)
                    continuation.resume()
                }
            }
        }
    }
}
