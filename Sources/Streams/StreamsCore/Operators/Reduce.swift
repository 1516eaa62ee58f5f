// reduce and similar operators: one value for a whole stream, when it finishes. These operators request unlimited
// values.

extension Publisher {
    /// Combines all values with `next`, starting with `initial`, and publishes the result when upstream finishes.
    public func reduce<Accumulator>(
        _ initial: Accumulator, _ next: @escaping @Sendable (Accumulator, Output) -> Accumulator
    ) -> Publishers.Reduce<Self, Accumulator> {
        Publishers.Reduce(upstream: self, initial: initial, nextPartialResult: next)
    }

    /// Like `reduce`. If `next` throws, upstream is cancelled and the stream fails with that error.
    public func tryReduce<Accumulator>(
        _ initial: Accumulator, _ next: @escaping @Sendable (Accumulator, Output) throws -> Accumulator
    ) -> Publishers.TryReduce<Self, Accumulator> {
        Publishers.TryReduce(upstream: self, initial: initial, nextPartialResult: next)
    }

    /// Publishes the number of values when upstream finishes.
    public func count() -> Publishers.Count<Self> { Publishers.Count(upstream: self) }

    /// Publishes all values as one array when upstream finishes. All values are kept in memory, so use this operator
    /// for short streams or after `prefix`.
    public func collect() -> Publishers.Collect<Self> { Publishers.Collect(upstream: self) }

    /// Publishes only the completion.
    public func ignoreOutput() -> Publishers.IgnoreOutput<Self> { Publishers.IgnoreOutput(upstream: self) }
}

extension Publishers {
    /// See `Publisher.reduce`.
    public struct Reduce<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let initial: Output
        public let nextPartialResult: @Sendable (Output, Upstream.Output) -> Output

        public init(
            upstream: Upstream, initial: Output,
            nextPartialResult: @escaping @Sendable (Output, Upstream.Output) -> Output
        ) {
            self.upstream = upstream
            self.initial = initial
            self.nextPartialResult = nextPartialResult
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Output, Upstream.Output, Upstream.Failure, Output, Failure>(initial) {
                [nextPartialResult] result, value in
                result = nextPartialResult(result, value)
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "Reduce", downstream: subscriber))
        }
    }

    /// See `Publisher.tryReduce`.
    public struct TryReduce<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = any Error

        public let upstream: Upstream
        public let initial: Output
        public let nextPartialResult: @Sendable (Output, Upstream.Output) throws -> Output

        public init(
            upstream: Upstream, initial: Output,
            nextPartialResult: @escaping @Sendable (Output, Upstream.Output) throws -> Output
        ) {
            self.upstream = upstream
            self.initial = initial
            self.nextPartialResult = nextPartialResult
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Output, Upstream.Output, Upstream.Failure, Output, Failure>(trying: initial)
            {
                [nextPartialResult] result, value in
                result = try nextPartialResult(result, value)
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "TryReduce", downstream: subscriber))
        }
    }

    /// See `Publisher.count`.
    public struct Count<Upstream: Publisher>: Publisher {
        public typealias Output = Int
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream

        public init(upstream: Upstream) {
            self.upstream = upstream
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Int, Upstream.Output, Upstream.Failure, Output, Failure>(0) {
                count, _ in
                count += 1
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "Count", downstream: subscriber))
        }
    }

    /// See `Publisher.collect`.
    public struct Collect<Upstream: Publisher>: Publisher {
        public typealias Output = [Upstream.Output]
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream

        public init(upstream: Upstream) {
            self.upstream = upstream
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<[Upstream.Output], Upstream.Output, Upstream.Failure, Output, Failure>([]) {
                values, value in
                values.append(value)
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "Collect", downstream: subscriber))
        }
    }

    /// See `Publisher.ignoreOutput`.
    public struct IgnoreOutput<Upstream: Publisher>: Publisher {
        public typealias Output = Never
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream

        public init(upstream: Upstream) {
            self.upstream = upstream
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(Ignorer<Upstream.Output, S>(downstream: subscriber))
        }
    }
}

extension Publishers.Count: Equatable where Upstream: Equatable {}
extension Publishers.Collect: Equatable where Upstream: Equatable {}
extension Publishers.IgnoreOutput: Equatable where Upstream: Equatable {}

private struct Ignorer<Input, Downstream: Subscriber>: Subscriber, CustomStringConvertible {
    let downstream: Downstream
    let combineIdentifier = CombineIdentifier()

    func receive(subscription: any Subscription) {
        downstream.receive(subscription: subscription)
        subscription.request(.unlimited)
    }

    func receive(_ input: Input) -> Subscribers.Demand { .none }
    func receive(completion: Subscribers.Completion<Downstream.Failure>) { downstream.receive(completion: completion) }
    var description: String { "IgnoreOutput" }
}
