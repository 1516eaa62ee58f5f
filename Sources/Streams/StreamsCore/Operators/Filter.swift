// filter: only the values that satisfy a condition. Unless the condition can throw, the operator needs no subscription
// of its own.

extension Publisher {
    /// Publishes the values for which `isIncluded` returns true.
    public func filter(_ isIncluded: @escaping @Sendable (Output) -> Bool) -> Publishers.Filter<Self> {
        Publishers.Filter(upstream: self, isIncluded: isIncluded)
    }

    /// Like `filter`. If `isIncluded` throws, upstream is cancelled and the stream fails with that error.
    public func tryFilter(_ isIncluded: @escaping @Sendable (Output) throws -> Bool) -> Publishers.TryFilter<Self> {
        Publishers.TryFilter(upstream: self, isIncluded: isIncluded)
    }
}

extension Publishers {
    /// See `Publisher.filter`.
    public struct Filter<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let isIncluded: @Sendable (Upstream.Output) -> Bool

        public init(upstream: Upstream, isIncluded: @escaping @Sendable (Upstream.Output) -> Bool) {
            self.upstream = upstream
            self.isIncluded = isIncluded
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(
                Sieve<Output, S>(downstream: subscriber, description: "Filter") { [isIncluded] value in
                    isIncluded(value) ? value : nil
                })
        }
    }

    /// See `Publisher.tryFilter`.
    public struct TryFilter<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = any Error

        public let upstream: Upstream
        public let isIncluded: @Sendable (Upstream.Output) throws -> Bool

        public init(upstream: Upstream, isIncluded: @escaping @Sendable (Upstream.Output) throws -> Bool) {
            self.upstream = upstream
            self.isIncluded = isIncluded
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = StepBehavior<Void, Output, Upstream.Failure, Output, any Error>(trying: ()) {
                [isIncluded] _, value in
                try isIncluded(value) ? .send(value) : .skip
            }
            upstream.subscribe(Operator(behavior, name: "TryFilter", downstream: subscriber))
        }
    }
}

// Consecutive filters are fused into one.

extension Publishers.Filter {
    /// Like `Publisher.filter`, fused with the preceding operator.
    public func filter(_ isIncluded: @escaping @Sendable (Output) -> Bool) -> Publishers.Filter<Upstream> {
        let first = self.isIncluded
        return Publishers.Filter(upstream: upstream) { first($0) && isIncluded($0) }
    }

    /// Like `Publisher.tryFilter`, fused with the preceding operator.
    public func tryFilter(_ isIncluded: @escaping @Sendable (Output) throws -> Bool) -> Publishers.TryFilter<Upstream> {
        let first = self.isIncluded
        return Publishers.TryFilter(upstream: upstream) { try first($0) && isIncluded($0) }
    }
}

extension Publishers.TryFilter {
    /// Like `Publisher.filter`, fused with the preceding operator.
    public func filter(_ isIncluded: @escaping @Sendable (Output) -> Bool) -> Publishers.TryFilter<Upstream> {
        tryFilter(isIncluded)
    }

    /// Like `Publisher.tryFilter`, fused with the preceding operator.
    public func tryFilter(_ isIncluded: @escaping @Sendable (Output) throws -> Bool) -> Publishers.TryFilter<Upstream> {
        let first = self.isIncluded
        return Publishers.TryFilter(upstream: upstream) { try first($0) && isIncluded($0) }
    }
}

/// Passes on the results of `transform` that are not nil. A sieve has no state, so, like map, it uses upstream's
/// subscription.
struct Sieve<Input, Downstream: Subscriber>: Subscriber, TurnPassing, CustomStringConvertible {
    let downstream: Downstream
    let description: String
    let transform: @Sendable (Input) -> Downstream.Input?
    let combineIdentifier = CombineIdentifier()

    func receive(subscription: any Subscription) { downstream.receive(subscription: subscription) }
    func receive(_ input: Input) -> Subscribers.Demand { transform(input).map { downstream.receive($0) } ?? .max(1) }
    func receive(completion: Subscribers.Completion<Downstream.Failure>) { downstream.receive(completion: completion) }
    var turnSubscriber: (any TurnSubscriber)? { downstream.turns }
}
