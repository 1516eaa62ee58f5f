// buffer: keeps values for a subscriber that is slower than its publisher.

extension Publisher {
    /// Keeps values for which the subscriber has no demand yet. The completion is delivered after them.
    /// - Parameters:
    ///   - size: how many values may wait, at least one.
    ///   - prefetch: how much to request from upstream.
    ///   - whenFull: what to do with a value if the buffer is full.
    public func buffer(
        size: Int, prefetch: Publishers.PrefetchStrategy, whenFull: Publishers.BufferingStrategy<Failure>
    ) -> Publishers.Buffer<Self> {
        Publishers.Buffer(upstream: self, size: size, prefetch: prefetch, whenFull: whenFull)
    }
}

extension Publishers {
    /// How a buffer is filled.
    public enum PrefetchStrategy {
        /// Request as many values as there is room for.
        case keepFull
        /// Request unlimited values, and buffer as many as there is room for.
        case byRequest
    }

    /// See `Publisher.buffer`.
    public struct Buffer<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let size: Int
        public let prefetch: PrefetchStrategy
        public let whenFull: BufferingStrategy<Failure>

        public init(
            upstream: Upstream, size: Int, prefetch: PrefetchStrategy, whenFull: BufferingStrategy<Failure>
        ) {
            precondition(size >= 0, "A buffer's size cannot be negative.")
            self.upstream = upstream
            self.size = size
            self.prefetch = prefetch
            self.whenFull = whenFull
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = BufferBehavior<Output, Failure>(size: size, prefetch: prefetch, whenFull: whenFull)
            upstream.subscribe(Operator(behavior, name: "Buffer", downstream: subscriber))
        }
    }
}

/// A behavior is copyable, but a cursor is not. Each subscriber has its own behavior.
private final class HeldBuffer<Value> {
    var buffer: ReplayBuffer<Value>

    init(_ buffer: consuming ReplayBuffer<Value>) { self.buffer = buffer }
}

private struct BufferBehavior<Input, Failure: Error>: OperatorBehavior {
    private let prefetch: Publishers.PrefetchStrategy
    private let size: Int
    private let overflow: Publishers.ReplayOverflow<Failure>
    private let held: HeldBuffer<Input>
    private var lane = ReplayLane()
    private var completion: Subscribers.Completion<Failure>?

    init(size: Int, prefetch: Publishers.PrefetchStrategy, whenFull: Publishers.BufferingStrategy<Failure>) {
        self.prefetch = prefetch
        self.size = Swift.max(size, 1)
        overflow = Publishers.ReplayOverflow(whenFull)
        held = HeldBuffer(
            ReplayBuffer(window: Queue(), next: .first, capacity: size, policy: overflow.policy))
    }

    mutating func start(_ outlet: Outlet<Input, Failure>) {
        outlet.requestUpstream(prefetch == .keepFull ? .max(size) : .unlimited)
    }

    mutating func receive(_ input: Input, _ outlet: Outlet<Input, Failure>) {
        if lane.pass() { return send(input, outlet) }
        var lost = Queue<Input>()
        if held.buffer.resolve(input, &lane, lost: &lost) { return send(input, outlet) }
        // No further values are accepted; those that wait are still delivered.
        if held.buffer.hasOverflowed { outlet.cancelUpstream() }
    }

    /// Delivers a value, which makes room for another.
    private func send(_ value: Input, _ outlet: Outlet<Input, Failure>) {
        outlet.send(value)
        if prefetch == .keepFull { outlet.requestUpstream(.max(1)) }
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ outlet: Outlet<Input, Failure>) {
        self.completion = completion
        held.buffer.end(&lane)
        finish(outlet)
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Input, Failure>) {
        if lane.grant(demand) { return }
        held.buffer.request(demand, &lane)
        while !outlet.isOver, let value = held.buffer.popReady() { send(value, outlet) }
        finish(outlet)
    }

    private mutating func finish(_ outlet: Outlet<Input, Failure>) {
        guard let end = held.buffer.takeEnd() else { return }
        if case .overflow = end, case .customError(let failure) = overflow {
            outlet.send(completion: .failure(failure()))
        } else {
            outlet.send(completion: completion ?? .finished)
        }
    }
}
