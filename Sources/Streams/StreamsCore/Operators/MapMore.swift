// tryMap, replaceNil, and map with key paths.

extension Publisher {
    /// Like `map`. If `transform` throws, upstream is cancelled and the stream fails with that error.
    public func tryMap<Result>(_ transform: @escaping @Sendable (Output) throws -> Result)
        -> Publishers.TryMap<Self, Result>
    {
        Publishers.TryMap(upstream: self, transform: transform)
    }

    /// Publishes `output` in place of each nil.
    public func replaceNil<Wrapped>(with output: Wrapped) -> Publishers.Map<Self, Wrapped> where Output == Wrapped? {
        let output = Unchecked(output)
        return map { $0 ?? output.value }
    }

    /// Publishes a property of each value.
    public func map<Result>(
        _ keyPath: KeyPath<Output, Result> & Sendable
    ) -> Publishers.MapKeyPath<Self, Result> {
        Publishers.MapKeyPath(upstream: self, keyPath: keyPath)
    }

    /// Publishes two properties of each value.
    public func map<Result0, Result1>(
        _ keyPath0: KeyPath<Output, Result0> & Sendable, _ keyPath1: KeyPath<Output, Result1> & Sendable
    ) -> Publishers.MapKeyPath2<Self, Result0, Result1> {
        Publishers.MapKeyPath2(upstream: self, keyPath0: keyPath0, keyPath1: keyPath1)
    }

    /// Publishes three properties of each value.
    public func map<Result0, Result1, Result2>(
        _ keyPath0: KeyPath<Output, Result0> & Sendable, _ keyPath1: KeyPath<Output, Result1> & Sendable,
        _ keyPath2: KeyPath<Output, Result2> & Sendable
    ) -> Publishers.MapKeyPath3<Self, Result0, Result1, Result2> {
        Publishers.MapKeyPath3(upstream: self, keyPath0: keyPath0, keyPath1: keyPath1, keyPath2: keyPath2)
    }
}

extension Publishers {
    /// See `Publisher.tryMap`.
    public struct TryMap<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = any Error

        public let upstream: Upstream
        public let transform: @Sendable (Upstream.Output) throws -> Output

        public init(upstream: Upstream, transform: @escaping @Sendable (Upstream.Output) throws -> Output) {
            self.upstream = upstream
            self.transform = transform
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Void, Upstream.Output, Upstream.Failure, Output, any Error>(trying: ()) {
                [transform] _, value in
                .send(try transform(value))
            }
            upstream.subscribe(Operator(behavior, name: "TryMap", downstream: subscriber))
        }
    }

    /// See `Publisher.map`.
    public struct MapKeyPath<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let keyPath: KeyPath<Upstream.Output, Output> & Sendable

        init(upstream: Upstream, keyPath: KeyPath<Upstream.Output, Output> & Sendable) {
            self.upstream = upstream
            self.keyPath = keyPath
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.map { [keyPath] in $0[keyPath: keyPath] }.receive(subscriber: subscriber)
        }
    }

    /// See `Publisher.map`.
    public struct MapKeyPath2<Upstream: Publisher, Output0, Output1>: Publisher {
        public typealias Output = (Output0, Output1)
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let keyPath0: KeyPath<Upstream.Output, Output0> & Sendable
        public let keyPath1: KeyPath<Upstream.Output, Output1> & Sendable

        init(
            upstream: Upstream, keyPath0: KeyPath<Upstream.Output, Output0> & Sendable,
            keyPath1: KeyPath<Upstream.Output, Output1> & Sendable
        ) {
            self.upstream = upstream
            self.keyPath0 = keyPath0
            self.keyPath1 = keyPath1
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.map { [keyPath0, keyPath1] in ($0[keyPath: keyPath0], $0[keyPath: keyPath1]) }.receive(
                subscriber: subscriber)
        }
    }

    /// See `Publisher.map`.
    public struct MapKeyPath3<Upstream: Publisher, Output0, Output1, Output2>: Publisher {
        public typealias Output = (Output0, Output1, Output2)
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let keyPath0: KeyPath<Upstream.Output, Output0> & Sendable
        public let keyPath1: KeyPath<Upstream.Output, Output1> & Sendable
        public let keyPath2: KeyPath<Upstream.Output, Output2> & Sendable

        init(
            upstream: Upstream, keyPath0: KeyPath<Upstream.Output, Output0> & Sendable,
            keyPath1: KeyPath<Upstream.Output, Output1> & Sendable,
            keyPath2: KeyPath<Upstream.Output, Output2> & Sendable
        ) {
            self.upstream = upstream
            self.keyPath0 = keyPath0
            self.keyPath1 = keyPath1
            self.keyPath2 = keyPath2
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.map { [keyPath0, keyPath1, keyPath2] in
                ($0[keyPath: keyPath0], $0[keyPath: keyPath1], $0[keyPath: keyPath2])
            }.receive(subscriber: subscriber)
        }
    }
}

// Consecutive operators are fused into one.

extension Publishers.Map {
    /// Like `Publisher.tryMap`, fused with the preceding operator.
    public func tryMap<Result>(
        _ transform: @escaping @Sendable (Output) throws -> Result
    ) -> Publishers.TryMap<Upstream, Result> {
        let first = self.transform
        return Publishers.TryMap(upstream: upstream) { try transform(first($0)) }
    }
}

extension Publishers.TryMap {
    /// Like `Publisher.map`, fused with the preceding operator.
    public func map<Result>(_ transform: @escaping @Sendable (Output) -> Result) -> Publishers.TryMap<Upstream, Result>
    {
        tryMap(transform)
    }

    /// Like `Publisher.tryMap`, fused with the preceding operator.
    public func tryMap<Result>(
        _ transform: @escaping @Sendable (Output) throws -> Result
    ) -> Publishers.TryMap<Upstream, Result> {
        let first = self.transform
        return Publishers.TryMap(upstream: upstream) { try transform(first($0)) }
    }
}
