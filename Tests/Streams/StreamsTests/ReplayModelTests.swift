// Random operations on BufferSubject and buffer, compared with the simplest possible model.

import Streams
import StreamsTestSupport
import Testing

/// One subscriber: an array, a number, and its outcome.
private final class Model {
    let capacity: Int
    let strategy: Strategy
    var waiting: [Int]
    var demand = 0
    var isOverflowed = false
    var hasEnded: Bool
    var events: [Subscribers.Event<Int, Oops>] = []

    enum Strategy: CaseIterable {
        case dropNewest, dropOldest, customError, replaceNewest

        var buffering: Publishers.BufferingStrategy<Oops> {
            switch self {
            case .dropNewest: .dropNewest
            case .dropOldest: .dropOldest
            case .customError: .customError { Oops() }
            case .replaceNewest: .replaceNewest
            }
        }
    }

    init(capacity: Int, strategy: Strategy, retained: [Int] = [], hasEnded: Bool = false) {
        self.capacity = max(capacity, 1)
        self.strategy = strategy
        waiting = retained
        self.hasEnded = hasEnded
        resolve()
    }

    private var isOver: Bool { if case .completion = events.last { true } else { false } }

    static func keep(_ value: Int, in values: inout [Int], capacity: Int, _ strategy: Strategy) {
        if values.count < capacity { return values.append(value) }
        guard capacity > 0 else { return }
        switch strategy {
        case .dropNewest: break
        case .dropOldest, .customError: values = values.dropFirst() + [value]
        case .replaceNewest: values[values.count - 1] = value
        }
    }

    func send(_ value: Int) {
        guard !isOver, !isOverflowed, !hasEnded else { return }
        if demand > 0, waiting.isEmpty {
            demand -= 1
            events.append(.value(value))
        } else if strategy == .customError, waiting.count == capacity {
            isOverflowed = true
        } else {
            Model.keep(value, in: &waiting, capacity: capacity, strategy)
        }
    }

    func request(_ count: Int) {
        demand += count
        resolve()
    }

    func end() {
        hasEnded = true
        resolve()
    }

    private func resolve() {
        while demand > 0, !waiting.isEmpty {
            demand -= 1
            events.append(.value(waiting.removeFirst()))
        }
        guard waiting.isEmpty, !isOver else { return }
        if isOverflowed { return events.append(.completion(.failure(Oops()))) }
        if hasEnded { events.append(.completion(.finished)) }
    }
}

@Suite("Replay against a model")
struct ReplayModelTests {
    private static let capacities = [0, 1, 2, 5, 150]

    @Test("BufferSubject behaves like an array", arguments: Model.Strategy.allCases, ReplayModelTests.capacities)
    private func bufferSubject(strategy: Model.Strategy, capacity: Int) {
        for seed in 1...8 {
            var random = SplitMix(seed: UInt64(seed * 1000 + capacity))
            let subject = BufferSubject<Int, Oops>(limit: capacity, whenFull: strategy.buffering)
            var retained: [Int] = []
            var pairs: [(Recorder<Int, Oops>, Model)] = []
            for step in 1...800 {
                switch Int.random(in: 0..<100, using: &random) {
                case 0 where pairs.count < 8:
                    let model = Model(capacity: capacity, strategy: strategy, retained: retained)
                    pairs.append((subject.record(demand: .none), model))
                case 1..<60:
                    subject.send(step)
                    Model.keep(step, in: &retained, capacity: capacity, strategy)
                    for (_, model) in pairs { model.send(step) }
                default:
                    guard let (recorder, model) = pairs.randomElement(using: &random) else { continue }
                    let count = Int.random(in: 1...3, using: &random)
                    recorder.request(.max(count))
                    model.request(count)
                }
            }
            subject.send(completion: .finished)
            for (_, model) in pairs { model.end() }
            pairs.append(
                (
                    subject.record(demand: .max(1)),
                    Model(capacity: capacity, strategy: strategy, retained: retained, hasEnded: true)
                ))
            pairs.last!.1.request(1)
            for (recorder, model) in pairs {
                #expect(recorder.events == model.events, "seed \(seed)")
                recorder.request(.unlimited)
                model.request(1_000_000)
                #expect(recorder.events == model.events, "seed \(seed), drained")
            }
        }
    }

    @Test("buffer behaves like an array", arguments: Model.Strategy.allCases, ReplayModelTests.capacities)
    private func buffer(strategy: Model.Strategy, capacity: Int) {
        for seed in 1...8 {
            var random = SplitMix(seed: UInt64(seed * 1000 + capacity))
            let subject = PassthroughSubject<Int, Oops>()
            let recorder = subject.buffer(size: capacity, prefetch: .byRequest, whenFull: strategy.buffering)
                .record(demand: .none)
            let model = Model(capacity: capacity, strategy: strategy)
            for step in 1...800 {
                if Int.random(in: 0..<100, using: &random) < 60 {
                    subject.send(step)
                    model.send(step)
                } else {
                    let count = Int.random(in: 1...2, using: &random)
                    recorder.request(.max(count))
                    model.request(count)
                }
            }
            #expect(recorder.events == model.events, "seed \(seed)")
            subject.send(completion: .finished)
            model.end()
            recorder.request(.unlimited)
            model.request(1_000_000)
            #expect(recorder.events == model.events, "seed \(seed), drained")
        }
    }

    @Test("dropNewest accepts as many as it has room for, however many gaps there are among the waiting values")
    func manyGaps() {
        let subject = BufferSubject<Int, Never>(limit: 200, whenFull: .dropNewest)
        let recorder = subject.record(demand: .none)
        // The buffer is full; then, a hundred times, one value is taken, one is accepted and one is refused.
        subject.send(sequence: 1...200)
        for step in 0..<100 {
            recorder.request(.max(1))
            subject.send(sequence: [1000 + 2 * step, 1001 + 2 * step])
        }
        recorder.request(.unlimited)
        #expect(recorder.values == Array(1...200) + (0..<100).map { 1000 + 2 * $0 })
    }
}

private struct SplitMix: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
