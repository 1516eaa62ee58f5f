// switchToLatest: the values of the latest publisher in a stream of publishers.

extension Publisher where Output: Publisher, Output.Failure == Failure {
    /// Publishes the values of the most recently published publisher. The previous one is cancelled.
    public func switchToLatest() -> Publishers.SwitchToLatest<Output, Self> {
        Publishers.SwitchToLatest(upstream: self)
    }
}

extension Publisher where Output: Publisher, Failure == Never {
    /// Like `switchToLatest`, if this publisher cannot fail but the published publishers can.
    public func switchToLatest()
        -> Publishers.SwitchToLatest<Output, Publishers.SetFailureType<Self, Output.Failure>>
    {
        setFailureType(to: Output.Failure.self).switchToLatest()
    }
}

extension Publisher where Output: Publisher, Failure == Never, Output.Failure == Never {
    /// Like `switchToLatest`, if neither can fail.
    public func switchToLatest() -> Publishers.SwitchToLatest<Output, Self> {
        Publishers.SwitchToLatest(upstream: self)
    }
}

extension Publisher where Output: Publisher, Output.Failure == Never {
    /// Like `switchToLatest`, if this publisher can fail but the published publishers cannot.
    public func switchToLatest()
        -> Publishers.SwitchToLatest<
            Publishers.SetFailureType<Output, Failure>,
            Publishers.Map<Self, Publishers.SetFailureType<Output, Failure>>
        >
    {
        map { $0.setFailureType(to: Failure.self) }.switchToLatest()
    }
}

extension Publishers {
    /// See `Publisher.switchToLatest`.
    public struct SwitchToLatest<P: Publisher, Upstream: Publisher>: Publisher
    where Upstream.Output == P, Upstream.Failure == P.Failure {
        public typealias Output = P.Output
        public typealias Failure = P.Failure

        public let upstream: Upstream

        public init(upstream: Upstream) { self.upstream = upstream }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            Runner(SwitchMachine(upstream), name: "SwitchToLatest", downstream: subscriber).begin()
        }
    }
}

private struct SwitchMachine<Source: Publisher>: StreamMachine
where Source.Output: Publisher, Source.Output.Failure == Source.Failure {
    typealias Output = Source.Output.Output
    typealias Failure = Source.Failure
    typealias Entry = Inlet<Signal, Output, Failure>

    enum Signal {
        case outer(UpstreamSignal<Source.Output, Failure>)
        case inner(UpstreamSignal<Output, Failure>)
    }

    private let source: Source
    private var inlet: Entry?
    private var outer: Upstream?
    private var latest: Upstream?

    init(_ source: Source) { self.source = source }

    mutating func open(_ inlet: Entry) {
        self.inlet = inlet
        let outer = SignalingUpstream(inlet) { Signal.outer($0) }
        self.outer = outer
        inlet.request(.unlimited, of: outer)
        inlet.afterwards { [source] in source.subscribe(outer) }
    }

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .outer(.value(let publisher, _)):
            latest?.cancel()
            subscribe(to: publisher, outlet)
        case .inner(.value(let value, let source)):
            // The previous publisher may have delivered the value while another thread was handling events.
            if source === latest, outlet.demand > .none { outlet.send(value) }
        case .outer(.completion(.finished, _)):
            outer = nil
            if latest == nil { outlet.send(completion: .finished) }
        case .inner(.completion(.finished, let source)):
            guard source === latest else { return }
            latest = nil
            if outer == nil { outlet.send(completion: .finished) }
        case .outer(.completion(let failure, _)):
            outlet.send(completion: failure)
        case .inner(.completion(let failure, let source)):
            if source === latest { outlet.send(completion: failure) }
        }
    }

    /// Requests the subscriber's outstanding demand from the new publisher.
    private mutating func subscribe(to publisher: Source.Output, _ outlet: Outlet<Output, Failure>) {
        guard let inlet else { return }
        let upstream = SignalingUpstream(inlet) { Signal.inner($0) }
        latest = upstream
        outlet.request(outlet.demand, of: upstream)
        outlet.afterwards { publisher.subscribe(upstream) }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        if let latest { outlet.request(demand, of: latest) }
    }

    mutating func stop(_ outlet: Outlet<Output, Failure>) {
        latest?.cancel()
        outer?.cancel()
        inlet = nil
    }
}
