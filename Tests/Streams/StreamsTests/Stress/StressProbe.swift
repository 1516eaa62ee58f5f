// A subscriber for use by many threads at once, which sees whether the rules are kept.

import Foundation
import Streams
import Synchronization
import Testing

/// Of which thread, and the how manieth.
struct Mark: Equatable {
    var sender: Int
    var number: Int
}

/// What it keeps of values is not guarded by anything: publishers call one at a time, each call seeing what the one
/// before did. If one does not, the thread sanitizer tells.
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
        // Counted first: the values may come before the call returns.
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

/// How much there is of what the tests repeat: less under the thread sanitizer, which sees more in each step and takes
/// about ten times as long for it.
enum StressSize {
    private static let isSanitized = dlsym(UnsafeMutableRawPointer(bitPattern: 0), "__tsan_init") != nil

    static func of(_ count: Int) -> Int { isSanitized ? max(count / 3, 1) : count }
}

/// Runs closures on threads of their own, and waits for all of them.
func inParallel(_ bodies: [@Sendable () -> Void]) {
    let group = DispatchGroup()
    for body in bodies {
        group.enter()
        Thread.detachNewThread {
            body()
            group.leave()
        }
    }
    #expect(group.wait(timeout: .now() + 100) == .success, "The threads do not come to an end.")
}

/// Makes a closure pass for one that may go to another thread, which is what these tests are about.
struct Shared<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}

/// A generator with a seed of its own for each thread.
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
