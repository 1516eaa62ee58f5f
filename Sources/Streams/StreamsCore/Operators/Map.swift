// map: transforms each value. The operator has no state and needs no synchronization; the subscriber receives
// upstream's subscription.

extension Publisher {
    /// Publishes the result of `transform` for each value.
    public func map<Result>(_ transform: @escaping @Sendable (Output) -> Result) -> Publishers.Map<Self, Result> {
        Publishers.Map(upstream: self, transform: transform)
    }
}

extension Publishers {
    /// See `Publisher.map`.
    public struct Map<Upstream: Publisher, Output>: Publisher {
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let transform: @Sendable (Upstream.Output) -> Output

        public init(upstream: Upstream, transform: @escaping @Sendable (Upstream.Output) -> Output) {
            self.upstream = upstream
            self.transform = transform
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(Inner(downstream: subscriber, transform: transform))
        }

        private struct Inner<Downstream: Subscriber>: Subscriber, TurnPassing, CustomStringConvertible
        where Downstream.Input == Output, Downstream.Failure == Upstream.Failure {
            let downstream: Downstream
            let transform: @Sendable (Upstream.Output) -> Output
            let combineIdentifier = CombineIdentifier()

            func receive(subscription: any Subscription) { downstream.receive(subscription: subscription) }
            func receive(_ input: Upstream.Output) -> Subscribers.Demand { downstream.receive(transform(input)) }
            func receive(completion: Subscribers.Completion<Upstream.Failure>) {
                downstream.receive(completion: completion)
            }
            var turnSubscriber: (any TurnSubscriber)? { downstream.turns }
            var description: String { "Map" }
        }
    }
}

extension Publishers.Map {
    /// Like `Publisher.map`, fused with the preceding operator.
    public func map<Result>(_ transform: @escaping @Sendable (Output) -> Result) -> Publishers.Map<Upstream, Result> {
        let first = self.transform
        return Publishers.Map(upstream: upstream) { transform(first($0)) }
    }
}
