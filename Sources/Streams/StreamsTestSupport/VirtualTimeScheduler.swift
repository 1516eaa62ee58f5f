// VirtualTimeScheduler: a scheduler whose clock is advanced by the test.

import StreamsCore

/// Runs scheduled closures when the test advances the clock, ordered by their time; closures with the same time run in
/// the order in which they were scheduled. So a test that spans minutes takes no time and is deterministic.
///
/// Closures run on the thread that advances the clock. They can be scheduled from any thread.
public final class VirtualTimeScheduler: Scheduler, @unchecked Sendable {
    public typealias SchedulerTimeType = VirtualTime
    /// There are no options.
    public typealias SchedulerOptions = Never

    private struct Entry {
        let time: VirtualTime
        let number: Int
        /// The interval of a repeated closure.
        let interval: VirtualTime.Stride?
        let action: () -> Void
    }

    private let lock = Lock()
    private var current = VirtualTime.zero
    /// A heap, earliest first.
    private var entries: [Entry] = []
    private var scheduled = 0

    /// Starts at `VirtualTime.zero`.
    public init() {}

    public var now: VirtualTime { lock.with { current } }
    public var minimumTolerance: VirtualTime.Stride { 0 }

    /// The number of scheduled closures that have not run yet; a repeated one counts as one.
    public var pending: Int { lock.with { entries.count } }

    public func schedule(options: Never?, _ action: @escaping @Sendable () -> Void) {
        lock.with { _ = insert(at: current, interval: nil, action) }
    }

    public func schedule(
        after date: VirtualTime, tolerance: VirtualTime.Stride, options: Never?,
        _ action: @escaping @Sendable () -> Void
    ) {
        lock.with { _ = insert(at: date, interval: nil, action) }
    }

    public func schedule(
        after date: VirtualTime, interval: VirtualTime.Stride, tolerance: VirtualTime.Stride, options: Never?,
        _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable {
        precondition(interval > 0, "The interval of a repeated action must be greater than 0.")
        let number = lock.with { insert(at: date, interval: interval, action) }
        return AnyCancellable { [weak self] in self?.remove(number) }
    }

    // Advancing the clock

    /// Advances the clock by `stride` and runs everything that is due by then.
    public func advance(by stride: VirtualTime.Stride) { advance(to: now.advanced(by: stride)) }

    /// Advances the clock to `time` and runs everything that is due by then.
    public func advance(to time: VirtualTime) {
        while let action = next(until: time) { action() }
        lock.with { current = Swift.max(current, time) }
    }

    /// Runs what is due now, including what that schedules for now.
    public func advance() { advance(to: now) }

    /// Advances the clock until nothing is left to execute.
    /// - Parameter limit: the maximum number of closures to run. Exceeding it traps, for example with a repeated
    ///   closure that is never cancelled.
    public func run(limit: Int = 100_000) {
        var count = 0
        while let action = next(until: VirtualTime(nanoseconds: .max)) {
            count += 1
            precondition(count <= limit, "More actions were run than the limit allows.")
            action()
        }
    }

    /// Removes the closure that is due first and sets the clock to its time.
    private func next(until time: VirtualTime) -> (() -> Void)? {
        lock.with {
            guard let first = entries.first, first.time <= time else { return nil }
            removeEntry(at: 0)
            current = Swift.max(current, first.time)
            if let interval = first.interval {
                let again = Entry(
                    time: first.time.advanced(by: interval), number: first.number, interval: interval,
                    action: first.action)
                push(again)
            }
            return first.action
        }
    }

    // The heap

    private func insert(
        at time: VirtualTime, interval: VirtualTime.Stride?, _ action: @escaping @Sendable () -> Void
    ) -> Int {
        scheduled += 1
        push(Entry(time: Swift.max(time, current), number: scheduled, interval: interval, action: action))
        return scheduled
    }

    private func remove(_ number: Int) {
        let removed = lock.with { () -> Entry? in
            guard let index = entries.firstIndex(where: { $0.number == number }) else { return nil }
            return removeEntry(at: index)
        }
        _ = removed
    }

    private func isBefore(_ a: Int, _ b: Int) -> Bool {
        (entries[a].time, entries[a].number) < (entries[b].time, entries[b].number)
    }

    private func push(_ entry: Entry) {
        entries.append(entry)
        rise(from: entries.count - 1)
    }

    private func rise(from start: Int) {
        var index = start
        while index > 0, isBefore(index, (index - 1) / 2) {
            entries.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    @discardableResult private func removeEntry(at index: Int) -> Entry {
        entries.swapAt(index, entries.count - 1)
        let entry = entries.removeLast()
        guard index < entries.count else { return entry }
        rise(from: index)
        var index = index
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2] where child < entries.count && isBefore(child, least) {
                least = child
            }
            if least == index { return entry }
            entries.swapAt(index, least)
            index = least
        }
    }
}
