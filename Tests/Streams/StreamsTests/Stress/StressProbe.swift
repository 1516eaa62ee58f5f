// A subscriber for concurrent use by many threads, which checks that the rules are kept.

import Foundation
import Streams
import Synchronization
import Testing

/// The sending thread, and the value's index.
struct Mark: Equatable {
    var sender: Int
    var number: Int
}

/// The record of values is not guarded: publishers call one at a time, each call ordered after the previous one.
/// Otherwise the thread sanitizer reports a race.
final class StressProbe<Failure: Error>: Subscriber, @unchecked Sendable {
    typealias Input = Mark

    private let isInside = Atomic<Bool>(false)
    private let requested = Atomic<Int>(0)
    private let subscription = NSLock()
    private var held: (any Subscription)?

    // Unguarded
    private(set) var count = 0
    private(set) var last: [Int: Int] = [:]
    private(set) var completions = 0
    private(set) var breaches: [String] = []
    private(set) var disorder: [String] = []
    /// Called with the number of values so far, from within a value.
    private let onValue: (StressProbe, Int) -> Subscribers.Demand
    private let onEnd: () -> Void

    init(
        onEnd: @escaping () -> Void = {},
        onValue: @escaping (StressProbe, Int) -> Subscribers.Demand = { _, _ in .none }
    ) {
        self.onEnd = onEnd
        self.onValue = onValue
    }

    func request(_ count: Int) {
        // The demand is counted first: values may arrive before the call returns.
        requested.wrappingAdd(count, ordering: .sequentiallyConsistent)
        subscription.withLock { held }?.request(count == .max ? .unlimited : .max(count))
    }

    func cancel() { subscription.withLock { held }?.cancel() }

    private func enter(_ what: String) {
        if isInside.exchange(true, ordering: .acquiring) { breaches.append("two calls at once: \(what)") }
    }

    private func leave() { isInside.store(false, ordering: .releasing) }

    func receive(subscription: any Subscription) {
        enter("subscription")
        self.subscription.withLock { held = subscription }
        leave()
    }

    func receive(_ input: Mark) -> Subscribers.Demand {
        enter("value")
        defer { leave() }
        count += 1
        if count > requested.load(ordering: .sequentiallyConsistent) { breaches.append("more than was asked for") }
        if completions > 0 { breaches.append("a value after the end") }
        if let before = last[input.sender], before >= input.number { disorder.append("\(input) after \(before)") }
        last[input.sender] = input.number
        let more = onValue(self, count)
        requested.wrappingAdd(more.max ?? 0, ordering: .sequentiallyConsistent)
        return more
    }

    func receive(completion: Subscribers.Completion<Failure>) {
        enter("completion")
        completions += 1
        if completions > 1 { breaches.append("a second end") }
        leave()
        onEnd()
    }
}

/// The number of repetitions: fewer under the thread sanitizer, which checks more in each step and is about ten times
/// slower.
enum StressSize {
    private static let isSanitized = dlsym(UnsafeMutableRawPointer(bitPattern: 0), "__tsan_init") != nil

    static func of(_ count: Int) -> Int { isSanitized ? max(count / 3, 1) : count }
}

/// Runs closures on separate threads, and waits for all of them.
func inParallel(_ bodies: [@Sendable () -> Void]) {
    let group = DispatchGroup()
    for body in bodies {
        group.enter()
        Thread.detachNewThread {
            body()
            group.leave()
        }
    }
    #expect(group.wait(timeout: .now() + 100) == .success, "The threads did not end.")
}

/// Passes a non-Sendable value to other threads, which is the purpose of these tests.
struct Shared<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}

/// A generator with a different seed for each thread.
struct Dice: RandomNumberGenerator {
    private var state: UInt64
    init(_ seed: Int) { state = UInt64(truncatingIfNeeded: seed) &* 0x9E37_79B9_7F4A_7C15 | 1 }
    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }
}
