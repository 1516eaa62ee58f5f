// flatMap: transforms each value into a publisher and merges the values of those publishers.

extension Publisher {
    /// Merges the values of the publishers that `transform` returns, in the order in which they arrive.
    /// - Parameters:
    ///   - maxPublishers: how many of those publishers may be subscribed to at a time; this limits the demand on
    ///     upstream. A publisher counts until its last value has been delivered.
    ///   - transform: returns a publisher for a value.
    public func flatMap<Result, P: Publisher>(
        maxPublishers: Subscribers.Demand = .unlimited, _ transform: @escaping @Sendable (Output) -> P
    ) -> Publishers.FlatMap<P, Self> where Result == P.Output, Failure == P.Failure {
        Publishers.FlatMap(upstream: self, maxPublishers: maxPublishers, transform: transform)
    }
}

extension Publisher where Failure == Never {
    /// Like `flatMap`, if this publisher cannot fail but the returned publishers can.
    public func flatMap<P: Publisher>(
        maxPublishers: Subscribers.Demand = .unlimited, _ transform: @escaping @Sendable (Output) -> P
    ) -> Publishers.FlatMap<P, Publishers.SetFailureType<Self, P.Failure>> {
        setFailureType(to: P.Failure.self).flatMap(maxPublishers: maxPublishers, transform)
    }

    /// Like `flatMap`, if neither can fail.
    public func flatMap<P: Publisher>(
        maxPublishers: Subscribers.Demand = .unlimited, _ transform: @escaping @Sendable (Output) -> P
    ) -> Publishers.FlatMap<P, Self> where P.Failure == Never {
        Publishers.FlatMap(upstream: self, maxPublishers: maxPublishers, transform: transform)
    }
}

extension Publisher {
    /// Like `flatMap`, if this publisher can fail but the returned publishers cannot.
    public func flatMap<P: Publisher>(
        maxPublishers: Subscribers.Demand = .unlimited, _ transform: @escaping @Sendable (Output) -> P
    ) -> Publishers.FlatMap<Publishers.SetFailureType<P, Failure>, Self> where P.Failure == Never {
        flatMap(maxPublishers: maxPublishers) { transform($0).setFailureType(to: Failure.self) }
    }
}

extension Publishers {
    /// See `Publisher.flatMap`.
    public struct FlatMap<NewPublisher: Publisher, Upstream: Publisher>: Publisher
    where NewPublisher.Failure == Upstream.Failure {
        public typealias Output = NewPublisher.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let maxPublishers: Subscribers.Demand
        public let transform: @Sendable (Upstream.Output) -> NewPublisher

        public init(
            upstream: Upstream, maxPublishers: Subscribers.Demand,
            transform: @escaping @Sendable (Upstream.Output) -> NewPublisher
        ) {
            self.upstream = upstream
            self.maxPublishers = maxPublishers
            self.transform = transform
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            Runner(FlatMapMachine(self), name: "FlatMap", downstream: subscriber).begin()
        }
    }
}

private struct FlatMapMachine<NewPublisher: Publisher, Source: Publisher>: StreamMachine
where NewPublisher.Failure == Source.Failure {
    typealias Output = NewPublisher.Output
    typealias Failure = Source.Failure
    typealias Entry = Inlet<Signal, Output, Failure>

    enum Signal {
        case outer(UpstreamSignal<Source.Output, Failure>)
        case inner(UpstreamSignal<Output, Failure>)
    }

    private let publisher: Publishers.FlatMap<NewPublisher, Source>
    private var inlet: Entry?
    private var inner = Flattening<Output, Failure>()
    private var outer: Upstream?

    init(_ publisher: Publishers.FlatMap<NewPublisher, Source>) { self.publisher = publisher }

    mutating func open(_ inlet: Entry) {
        self.inlet = inlet
        let outer = SignalingUpstream(inlet) { Signal.outer($0) }
        self.outer = outer
        inlet.request(publisher.maxPublishers, of: outer)
        inlet.afterwards { [publisher] in publisher.upstream.subscribe(outer) }
    }

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .outer(.value(let value, _)):
            subscribe(to: publisher.transform(value), outlet)
        case .inner(.value(let value, let source)):
            inner.receive(value, from: source, outlet)
        case .outer(.completion(.finished, _)):
            outer = nil
            finishIfDone(outlet)
        case .inner(.completion(.finished, let source)):
            if inner.finish(source) { makeRoom(for: 1, outlet) }
        case .outer(.completion(let failure, _)), .inner(.completion(let failure, _)):
            outlet.send(completion: failure)
        }
    }

    private mutating func subscribe(to publisher: NewPublisher, _ outlet: Outlet<Output, Failure>) {
        guard let inlet else { return }
        let upstream = SignalingUpstream(inlet) { Signal.inner($0) }
        inner.add(upstream, outlet)
        outlet.afterwards { publisher.subscribe(upstream) }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        let room = inner.request(outlet)
        if room > 0 { makeRoom(for: room, outlet) }
    }

    private func makeRoom(for count: Int, _ outlet: Outlet<Output, Failure>) {
        if let outer, publisher.maxPublishers != .unlimited { outlet.request(.max(count), of: outer) }
        finishIfDone(outlet)
    }

    private func finishIfDone(_ outlet: Outlet<Output, Failure>) {
        if outer == nil, inner.isEmpty { outlet.send(completion: .finished) }
    }

    mutating func stop(_ outlet: Outlet<Output, Failure>) {
        inner.stop()
        outer?.cancel()
        inlet = nil
    }
}
