// MergeMany: merges any number of publishers of one type. Also implements all Merge publishers.

extension Publisher {
    /// Publishes the values of this and another publisher of the same type as they arrive.
    public func merge(with other: Self) -> Publishers.MergeMany<Self> { Publishers.MergeMany(self, other) }
}

extension Publishers {
    /// Merges the values of any number of publishers as they arrive. Finishes when all have finished; fails when one
    /// fails.
    public struct MergeMany<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        /// The merged publishers.
        public let publishers: [Upstream]

        /// Merges these publishers.
        public init(_ upstream: Upstream...) { publishers = upstream }

        /// Merges these publishers.
        public init<S: Swift.Sequence>(_ upstream: S) where S.Element == Upstream { publishers = Array(upstream) }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            mergeAll(publishers.map { publisher in { publisher.subscribe($0) } }, to: subscriber)
        }

        public func merge(with other: Upstream) -> MergeMany { MergeMany(publishers + [other]) }
    }
}

extension Publishers.MergeMany: Equatable where Upstream: Equatable {}

/// An upstream of a merge.
typealias MergeUpstream<Output, Failure: Error> =
    SignalingUpstream<Output, Failure, UpstreamSignal<Output, Failure>, Output, Failure>

/// Merges several sources. Each closure in `sources` subscribes an upstream to one of them.
func mergeAll<S: Subscriber>(_ sources: [(MergeUpstream<S.Input, S.Failure>) -> Void], to subscriber: S) {
    Runner(MergeMachine(sources), name: "Merge", downstream: subscriber).begin()
}

private struct MergeMachine<Output, Failure: Error>: StreamMachine {
    typealias Signal = UpstreamSignal<Output, Failure>

    private let sources: [(MergeUpstream<Output, Failure>) -> Void]
    private var inner = Flattening<Output, Failure>()

    init(_ sources: [(MergeUpstream<Output, Failure>) -> Void]) { self.sources = sources }

    mutating func open(_ inlet: Inlet<Signal, Output, Failure>) {
        let upstreams = sources.map { _ in SignalingUpstream(inlet) { $0 } }
        for upstream in upstreams { inner.add(upstream, inlet) }
        inlet.afterwards { [sources] in
            for (source, upstream) in zip(sources, upstreams) where !inlet.isOver { source(upstream) }
        }
        finishIfDone(inlet)
    }

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .value(let value, let source):
            inner.receive(value, from: source, outlet)
        case .completion(.finished, let source):
            if inner.finish(source) { finishIfDone(outlet) }
        case .completion(let failure, _):
            outlet.send(completion: failure)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        if inner.request(outlet) > 0 { finishIfDone(outlet) }
    }

    private func finishIfDone(_ outlet: Outlet<Output, Failure>) {
        if inner.isEmpty { outlet.send(completion: .finished) }
    }

    mutating func stop(_ outlet: Outlet<Output, Failure>) { inner.stop() }
}
