// buffer: a subscriber that is slower than its publisher, and what becomes of the values it has not asked for yet.

extension Publisher {
    /// Keeps values that the subscriber has not asked for yet. The end comes behind them.
    /// - Parameters:
    ///   - size: how many values may wait, one at least.
    ///   - prefetch: what upstream is asked for.
    ///   - whenFull: what becomes of a value for which there is no room.
    public func buffer(
        size: Int, prefetch: Publishers.PrefetchStrategy, whenFull: Publishers.BufferingStrategy<Failure>
    ) -> Publishers.Buffer<Self> {
        Publishers.Buffer(upstream: self, size: size, prefetch: prefetch, whenFull: whenFull)
    }
}

extension Publishers {
    /// How a buffer is filled.
    public enum PrefetchStrategy {
        /// Upstream is asked for as many values as there is room for.
        case keepFull
        /// Upstream is asked for all it has, to be kept in the buffer as far as there is room.
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

/// A behavior can be copied, and a cursor cannot. Each subscriber has a behavior of its own.
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
        if held.buffer.settle(input, &lane, lost: &lost) { return send(input, outlet) }
        // Nothing that comes is taken any more; what waits is still delivered.
        if held.buffer.hasOverflowed { outlet.cancelUpstream() }
    }

    /// What was delivered leaves room for another.
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
