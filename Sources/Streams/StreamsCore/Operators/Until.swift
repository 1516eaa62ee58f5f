// prefix(untilOutputFrom:) and drop(untilOutputFrom:): another publisher ends or starts the stream.

extension Publisher {
    /// Publishes values until `publisher` publishes one, then finishes. The completion of `publisher` is ignored.
    public func prefix<P: Publisher>(untilOutputFrom publisher: P) -> Publishers.PrefixUntilOutput<Self, P> {
        Publishers.PrefixUntilOutput(upstream: self, other: publisher)
    }

    /// Drops values until `publisher` publishes one. If `publisher` ends without a value, so does the stream. For each
    /// dropped value, another is requested.
    public func drop<P: Publisher>(
        untilOutputFrom publisher: P
    ) -> Publishers.DropUntilOutput<Self, P> where Failure == P.Failure {
        Publishers.DropUntilOutput(upstream: self, other: publisher)
    }
}

extension Publishers {
    /// See `Publisher.prefix(untilOutputFrom:)`.
    public struct PrefixUntilOutput<Upstream: Publisher, Other: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let other: Other

        public init(upstream: Upstream, other: Other) {
            self.upstream = upstream
            self.other = other
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            Gate.start(subscriber, name: "PrefixUntilOutput", opens: false, upstream, other) { _ in nil }
        }
    }

    /// See `Publisher.drop(untilOutputFrom:)`.
    public struct DropUntilOutput<Upstream: Publisher, Other: Publisher>: Publisher
    where Upstream.Failure == Other.Failure {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let other: Other

        public init(upstream: Upstream, other: Other) {
            self.upstream = upstream
            self.other = other
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            Gate.start(subscriber, name: "DropUntilOutput", opens: true, upstream, other) { $0 }
        }
    }
}

extension Publishers.PrefixUntilOutput: Equatable where Upstream: Equatable, Other: Equatable {}
extension Publishers.DropUntilOutput: Equatable where Upstream: Equatable, Other: Equatable {}

/// Passes values on until, or after, another publisher has published a value.
private struct Gate<Output, Failure: Error>: StreamMachine {
    enum Signal {
        case value(Output)
        case completion(Subscribers.Completion<Failure>)
        case turn
        /// The other publisher ended, which ends a stream that is still closed.
        case otherEnded(Subscribers.Completion<Failure>)
    }

    let opens: Bool
    let other: any Subscription
    private var isOpen: Bool

    init(opens: Bool, other: any Subscription) {
        self.opens = opens
        self.other = other
        isOpen = !opens
    }

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .value(let value): if isOpen { outlet.send(value) } else { outlet.requestUpstream(.max(1)) }
        case .completion(let completion): outlet.send(completion: completion)
        case .turn: if opens { isOpen = true } else { outlet.send(completion: .finished) }
        case .otherEnded(let completion): if !isOpen { outlet.send(completion: completion) }
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        outlet.requestUpstream(demand)
    }

    mutating func stop(_ outlet: Outlet<Output, Failure>) { other.cancel() }

    /// - Parameter onOtherEnd: the completion for a stream that is still closed when the other publisher ends, if any.
    static func start<Upstream: Publisher, Other: Publisher, Downstream: Subscriber>(
        _ downstream: Downstream, name: String, opens: Bool, _ upstream: Upstream, _ other: Other,
        onOtherEnd: @escaping (Subscribers.Completion<Other.Failure>) -> Subscribers.Completion<Failure>?
    )
    where
        Upstream.Output == Output, Upstream.Failure == Failure, Downstream.Input == Output,
        Downstream.Failure == Failure
    {
        let otherSubscription = LinkSubscription(name: name)
        let runner = Runner(Gate(opens: opens, other: otherSubscription), name: name, downstream: downstream)
        let otherLink = Link<Other.Output, Other.Failure>(
            otherSubscription,
            .init(
                value: { _ in
                    runner.submit(.turn)
                    otherSubscription.cancel()
                    return .none
                },
                completion: { if let end = onOtherEnd($0) { runner.submit(.otherEnded(end)) } }))
        let link = Link<Output, Failure>(
            LinkSubscription(name: name),
            .init(
                subscription: { if !opens { runner.begin() } }, value: { runner.take(.value($0)) },
                completion: { runner.submit(.completion($0)) }))
        runner.upstream = link.subscription
        // As in Combine: a subscriber that waits for the other publisher has a subscription to cancel from the
        // beginning.
        if opens { runner.begin() }
        otherSubscription.request(.max(1))
        other.subscribe(otherLink)
        upstream.subscribe(link)
    }
}
