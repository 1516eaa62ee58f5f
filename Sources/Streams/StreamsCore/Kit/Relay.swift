// Relay: for operators whose upstreams follow one another, such as append, catch and retry. What the subscriber has
// asked for and not received goes over to the next.

/// One upstream after the other.
struct Relay<Output, Failure: Error>: StreamMachine {
    enum Signal {
        case value(Output)
        case end(Subscribers.Completion<Failure>)
        /// The upstream has ended; `replace` puts a link in its place, and `subscribe` subscribes it to the next one.
        case next(replace: (Outlet<Output, Failure>) -> Void, subscribe: () -> Void)
    }

    private let trampoline = Trampoline()

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .value(let value):
            outlet.send(value)
        case .end(let completion):
            outlet.send(completion: completion)
        case .next(let replace, let subscribe):
            replace(outlet)
            outlet.afterwards { [trampoline] in trampoline.run(subscribe) }
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        outlet.requestUpstream(demand)
    }

    /// Gives a subscriber its first upstream. It gets its subscription when that has come.
    /// - Parameter onEnd: what is to be done with the upstream's end.
    static func start<Upstream: Publisher, Downstream: Subscriber>(
        _ downstream: Downstream, name: String, first upstream: Upstream,
        onEnd: (RelayRunner<Downstream>) -> (Subscribers.Completion<Upstream.Failure>) -> Void
    )
    where
        Upstream.Output == Output, Downstream.Input == Output, Downstream.Failure == Failure
    {
        let runner = RelayRunner<Downstream>(Relay(), name: name, downstream: downstream)
        let link = Link<Output, Upstream.Failure>(
            LinkSubscription(name: name),
            .init(subscription: { runner.begin() }, value: { runner.take(.value($0)) }, completion: onEnd(runner)))
        runner.upstream = link.subscription
        upstream.subscribe(link)
    }
}

typealias RelayRunner<Downstream: Subscriber> =
    Runner<Relay<Downstream.Input, Downstream.Failure>, Downstream>

extension Runner where Machine == Relay<Downstream.Input, Downstream.Failure> {
    /// Goes over to the next upstream.
    func goOn<Upstream: Publisher>(
        to upstream: Upstream, onEnd: @escaping (Subscribers.Completion<Upstream.Failure>) -> Void
    ) where Upstream.Output == Downstream.Input {
        let link = Link<Upstream.Output, Upstream.Failure>(
            LinkSubscription(name: description), .init(value: { self.take(.value($0)) }, completion: onEnd))
        submit(.next(replace: { $0.replaceUpstream(with: link.subscription) }, subscribe: { upstream.subscribe(link) }))
    }
}

/// Runs what is to be run one after the other, also if it is handed in from within: an upstream that fails as soon as
/// it is subscribed to, and is tried again, does not fill the stack.
private final class Trampoline: @unchecked Sendable {
    private let lock = Lock()
    private var isRunning = false
    private var waiting = Queue<() -> Void>()

    func run(_ work: @escaping () -> Void) {
        let isFirst = lock.with {
            guard isRunning else {
                isRunning = true
                return true
            }
            waiting.append(work)
            return false
        }
        guard isFirst else { return }
        var next: (() -> Void)? = work
        while let work = next {
            work()
            next = lock.with {
                let work = waiting.popFirst()
                isRunning = work != nil
                return work
            }
        }
    }
}
