// compactMap: transforms each value and drops nil results. unwrap is based on it.

extension Publisher {
    /// Publishes the results of `transform` that are not nil.
    public func compactMap<Result>(
        _ transform: @escaping @Sendable (Output) -> Result?
    ) -> Publishers.CompactMap<Self, Result> {
        Publishers.CompactMap(upstream: self, transform: transform)
    }

    /// Like `compactMap`. If `transform` throws, upstream is cancelled and the stream fails with that error.
    public func tryCompactMap<Result>(
        _ transform: @escaping @Sendable (Output) throws -> Result?
    ) -> Publishers.TryCompactMap<Self, Result> {
        Publishers.TryCompactMap(upstream: self, transform: transform)
    }

    /// Publishes the values that are not nil.
    public func unwrap<Wrapped>() -> Publishers.CompactMap<Self, Wrapped> where Output == Wrapped? {
        compactMap { $0 }
    }
}

extension Publishers {
    /// See `Publisher.compactMap`.
    public struct CompactMap<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let transform: @Sendable (Upstream.Output) -> Output?

        public init(upstream: Upstream, transform: @escaping @Sendable (Upstream.Output) -> Output?) {
            self.upstream = upstream
            self.transform = transform
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(
                Sieve<Upstream.Output, S>(downstream: subscriber, description: "CompactMap", transform: transform))
        }
    }

    /// See `Publisher.tryCompactMap`.
    public struct TryCompactMap<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = any Error

        public let upstream: Upstream
        public let transform: @Sendable (Upstream.Output) throws -> Output?

        public init(upstream: Upstream, transform: @escaping @Sendable (Upstream.Output) throws -> Output?) {
            self.upstream = upstream
            self.transform = transform
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Void, Upstream.Output, Upstream.Failure, Output, any Error>(trying: ()) {
                [transform] _, value in
                try transform(value).map { .send($0) } ?? .skip
            }
            upstream.subscribe(Operator(behavior, name: "TryCompactMap", downstream: subscriber))
        }
    }
}

// Consecutive operators are fused into one.

extension Publishers.CompactMap {
    /// Like `Publisher.compactMap`, fused with the preceding operator.
    public func compactMap<Result>(
        _ transform: @escaping @Sendable (Output) -> Result?
    ) -> Publishers.CompactMap<Upstream, Result> {
        let first = self.transform
        return Publishers.CompactMap(upstream: upstream) { first($0).flatMap(transform) }
    }

    /// Like `Publisher.map`, fused with the preceding operator.
    public func map<Result>(_ transform: @escaping @Sendable (Output) -> Result)
        -> Publishers.CompactMap<Upstream, Result>
    {
        let first = self.transform
        return Publishers.CompactMap(upstream: upstream) { first($0).map(transform) }
    }
}

extension Publishers.TryCompactMap {
    /// Like `Publisher.compactMap`, fused with the preceding operator.
    public func compactMap<Result>(
        _ transform: @escaping @Sendable (Output) throws -> Result?
    ) -> Publishers.TryCompactMap<Upstream, Result> {
        let first = self.transform
        return Publishers.TryCompactMap(upstream: upstream) { try first($0).flatMap(transform) }
    }
}
