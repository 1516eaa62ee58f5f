// first and last: one value of the stream. These operators request unlimited values; `first` cancels upstream when it
// has the value.

extension Publisher {
    /// Publishes the first value, then finishes.
    public func first() -> Publishers.First<Self> { Publishers.First(upstream: self) }

    /// Publishes the first value for which `predicate` returns true, then finishes.
    public func first(where predicate: @escaping @Sendable (Output) -> Bool) -> Publishers.FirstWhere<Self> {
        Publishers.FirstWhere(upstream: self, predicate: predicate)
    }

    /// Like `first(where:)`. If `predicate` throws, upstream is cancelled and the stream fails with that error.
    public func tryFirst(where predicate: @escaping @Sendable (Output) throws -> Bool) -> Publishers.TryFirstWhere<Self>
    {
        Publishers.TryFirstWhere(upstream: self, predicate: predicate)
    }

    /// Publishes the last value when upstream finishes.
    public func last() -> Publishers.Last<Self> { Publishers.Last(upstream: self) }

    /// When upstream finishes, publishes the last value for which `predicate` returned true.
    public func last(where predicate: @escaping @Sendable (Output) -> Bool) -> Publishers.LastWhere<Self> {
        Publishers.LastWhere(upstream: self, predicate: predicate)
    }

    /// Like `last(where:)`. If `predicate` throws, upstream is cancelled and the stream fails with that error.
    public func tryLast(where predicate: @escaping @Sendable (Output) throws -> Bool) -> Publishers.TryLastWhere<Self> {
        Publishers.TryLastWhere(upstream: self, predicate: predicate)
    }
}

extension Publishers {
    /// See `Publisher.first`.
    public struct First<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream

        public init(upstream: Upstream) {
            self.upstream = upstream
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Upstream.Output?, Upstream.Output, Upstream.Failure, Output, Failure>(nil) {
                first, value in
                first = value
                return .enough
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "First", downstream: subscriber))
        }
    }

    /// See `Publisher.first(where:)`.
    public struct FirstWhere<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Upstream.Output?, Upstream.Output, Upstream.Failure, Output, Failure>(nil) {
                [predicate] first, value in
                guard predicate(value) else { return .more }
                first = value
                return .enough
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "TryFirst", downstream: subscriber))
        }
    }

    /// See `Publisher.tryFirst(where:)`.
    public struct TryFirstWhere<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) throws -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) throws -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Upstream.Output?, Upstream.Output, Upstream.Failure, Output, Failure>(
                trying: nil
            ) {
                [predicate] first, value in
                guard try predicate(value) else { return .more }
                first = value
                return .enough
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "TryFirstWhere", downstream: subscriber))
        }
    }

    /// See `Publisher.last`.
    public struct Last<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream

        public init(upstream: Upstream) {
            self.upstream = upstream
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Upstream.Output?, Upstream.Output, Upstream.Failure, Output, Failure>(nil) {
                last, value in
                last = value
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "Last", downstream: subscriber))
        }
    }

    /// See `Publisher.last(where:)`.
    public struct LastWhere<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Upstream.Output?, Upstream.Output, Upstream.Failure, Output, Failure>(nil) {
                [predicate] last, value in
                guard predicate(value) else { return .more }
                last = value
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "LastWhere", downstream: subscriber))
        }
    }

    /// See `Publisher.tryLast(where:)`.
    public struct TryLastWhere<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        public let predicate: @Sendable (Upstream.Output) throws -> Bool

        public init(upstream: Upstream, predicate: @escaping @Sendable (Upstream.Output) throws -> Bool) {
            self.upstream = upstream
            self.predicate = predicate
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = SummaryBehavior<Upstream.Output?, Upstream.Output, Upstream.Failure, Output, Failure>(
                trying: nil
            ) {
                [predicate] last, value in
                guard try predicate(value) else { return .more }
                last = value
                return .more
            } result: {
                $0
            }
            upstream.subscribe(Operator(behavior, name: "TryLastWhere", downstream: subscriber))
        }
    }
}

extension Publishers.First: Equatable where Upstream: Equatable {}
extension Publishers.Last: Equatable where Upstream: Equatable {}
