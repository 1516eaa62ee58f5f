// What must compile: the same code, done right.

import Dispatch
import Forebay
import Streams
import Synchronization

@MainActor final class View: ObservableObject {
    @Published var count = 0
    var held: Set<AnyCancellable> = []

    func show(_ topic: Topic) {
        let texts = topic.messages().map(\.text).replaceError(with: "")
        texts.sink(on: .shared) { _ in self.count += 1 }.store(in: &held)
        texts.sink { _ in Task { @MainActor in self.count += 1 } }.store(in: &held)
        texts.map(\.count).receive(on: DispatchQueue.main).assign(to: &$count)
    }

    func read(_ topic: Topic) async throws {
        for try await _ in topic.messages() { count += 1 }
        for try await _ in topic.messages().map(\.text).values { count += 1 }
    }
}

func count(_ topic: Topic) {
    let count = Mutex(0)
    let cancellable = topic.messages().sink(receiveCompletion: { _ in }) { _ in count.withLock { $0 += 1 } }
    cancellable.cancel()
}

final class Box { var n = 0 }

/// What stays on one thread may have any type.
func boxes() {
    let boxes = PassthroughSubject<Box, Never>()
    let cancellable = boxes.map(\.n).removeDuplicates().sink { print($0) }
    boxes.send(Box())
    cancellable.cancel()
}

/// Sendable values may go to several threads.
func numbers() -> Future<Int, Never> {
    let numbers = PassthroughSubject<Int, Never>()
    DispatchQueue.global().async { numbers.send(1) }
    numbers.send(2)
    return Future { promise in DispatchQueue.global().async { promise(.success(3)) } }
}
