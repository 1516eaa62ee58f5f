// Relay: for operators with successive upstreams, such as append, catch and retry. The subscriber's outstanding demand
// is transferred to the next upstream.

/// One upstream after another.
struct Relay<Output, Failure: Error>: StreamMachine {
    enum Signal {
        case value(Output)
        case end(Subscribers.Completion<Failure>)
        /// The upstream has ended. `replace` installs a new link, and `subscribe` subscribes that link to the next
        /// upstream.
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

    /// Subscribes to the first upstream. The subscriber receives its subscription once the upstream has delivered one.
    /// - Parameter onEnd: handles the completion of the first upstream.
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
    /// Continues with the next upstream.
    func goOn<Upstream: Publisher>(
        to upstream: Upstream, onEnd: @escaping (Subscribers.Completion<Upstream.Failure>) -> Void
    ) where Upstream.Output == Downstream.Input {
        let link = Link<Upstream.Output, Upstream.Failure>(
            LinkSubscription(name: description), .init(value: { self.take(.value($0)) }, completion: onEnd))
        submit(.next(replace: { $0.replaceUpstream(with: link.subscription) }, subscribe: { upstream.subscribe(link) }))
    }
}

/// Runs closures one after another, including those added while one is running. So an upstream that fails as soon as it
/// is subscribed to, and is retried, does not overflow the stack.
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
