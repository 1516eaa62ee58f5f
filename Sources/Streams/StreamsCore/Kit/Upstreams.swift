// Upstreams: the sides of a machine with several upstreams. Each is a subscriber of its own, which hands what comes to
// the machine as signals, from whatever thread; what the machine asks of it goes out when the machine's turn is over.

/// One of a machine's upstreams, as the machine sees it.
class Upstream: @unchecked Sendable {
    private let lock = Lock()

    // Under the lock
    private var subscription: (any Subscription)?
    /// What is asked for and did not go out yet.
    private var wanted = Subscribers.Demand.none
    /// It is delivering: what is asked for meanwhile is what it returns.
    private var isReceiving = false
    private var isOver = false

    // For the machine, which alone uses them

    /// Where it keeps this.
    final var index = 0
    /// How many values of this wait there.
    final var held = 0
    /// What it was asked for and has not delivered.
    final var asked = Subscribers.Demand.none
    /// It has been told of the end.
    final var hasEnded = false

    /// The first of the values that wait here is the latest now, where values wait here.
    func advance() {}

    /// - Returns: whether `flush` has something to do.
    fileprivate final func want(_ demand: Subscribers.Demand) -> Bool {
        lock.with {
            guard !isOver else { return false }
            let isFirst = wanted == .none
            wanted += demand
            return isFirst && !isReceiving
        }
    }

    /// Asks for what is wanted, unless it goes another way.
    final func flush() {
        lock.lock()
        guard !isReceiving, let subscription, wanted > .none else { return lock.unlock() }
        let demand = wanted
        wanted = .none
        lock.unlock()
        subscription.request(demand)
    }

    /// It ends here, whether or not it has begun.
    final func cancel() { close()?.cancel() }

    // What it receives

    fileprivate final func open(_ subscription: any Subscription) {
        let isFirst = lock.with {
            guard self.subscription == nil, !isOver else { return false }
            self.subscription = subscription
            return true
        }
        if isFirst { flush() } else { subscription.cancel() }
    }

    /// - Returns: whether a value is still wanted of it.
    fileprivate final func beginReceiving() -> Bool {
        lock.with {
            guard !isOver else { return false }
            isReceiving = true
            return true
        }
    }

    /// - Returns: what was asked for since it began to receive.
    fileprivate final func endReceiving() -> Subscribers.Demand {
        lock.with {
            isReceiving = false
            defer { wanted = .none }
            return isOver ? .none : wanted
        }
    }

    fileprivate final func isOpen() -> Bool { lock.with { !isOver } }

    /// It ended, or is not wanted any more. The caller lets go of the subscription.
    @discardableResult fileprivate final func close() -> (any Subscription)? {
        lock.with {
            isOver = true
            return subscription.take()
        }
    }
}

extension Outlet {
    /// Asks one of several upstreams for more, once this call is over.
    final func request(_ demand: Subscribers.Demand, of upstream: Upstream) {
        if demand > .none, upstream.want(demand) { owing.append(upstream) }
    }
}

/// A machine with several upstreams of one kind is told by each which of them it is.
enum UpstreamSignal<Input, Failure: Error> {
    case value(Input, from: Upstream)
    case completion(Subscribers.Completion<Failure>, from: Upstream)
}

/// An upstream whose values become signals.
final class SignalingUpstream<Input, InputFailure: Error, Signal, Output, Failure: Error>: Upstream, Subscriber,
    CustomStringConvertible, @unchecked Sendable
{
    private let inlet: Inlet<Signal, Output, Failure>
    private let signal: (UpstreamSignal<Input, InputFailure>) -> Signal

    init(
        _ inlet: Inlet<Signal, Output, Failure>, _ signal: @escaping (UpstreamSignal<Input, InputFailure>) -> Signal
    ) {
        self.inlet = inlet
        self.signal = signal
    }

    func receive(subscription: any Subscription) { open(subscription) }

    func receive(_ input: Input) -> Subscribers.Demand {
        guard beginReceiving() else { return .none }
        inlet.submit(signal(.value(input, from: self)))
        return endReceiving()
    }

    func receive(completion: Subscribers.Completion<InputFailure>) {
        guard isOpen() else { return }
        close()
        inlet.submit(signal(.completion(completion, from: self)))
    }

    var description: String { "\(inlet)" }
}

/// A machine whose upstreams differ in what they deliver is only told that there is something to be taken.
enum ArrivalSignal<Failure: Error> {
    case arrival(from: Upstream)
    case completion(Subscribers.Completion<Failure>, from: Upstream)
}

/// An upstream whose values wait here until the machine takes them: as many as it was asked for at most.
final class QueueingUpstream<Input, Output, Failure: Error>: Upstream, Subscriber, CustomStringConvertible,
    @unchecked Sendable
{
    private let inlet: Inlet<ArrivalSignal<Failure>, Output, Failure>
    private let lock = Lock()
    private var queue = Queue<Input>()
    /// For the machine: the value taken last.
    private(set) var latest: Input?

    fileprivate init(_ inlet: Inlet<ArrivalSignal<Failure>, Output, Failure>) { self.inlet = inlet }

    func receive(subscription: any Subscription) { open(subscription) }

    func receive(_ input: Input) -> Subscribers.Demand {
        guard beginReceiving() else { return .none }
        lock.with { queue.append(input) }
        inlet.submit(.arrival(from: self))
        return endReceiving()
    }

    func receive(completion: Subscribers.Completion<Failure>) {
        guard isOpen() else { return }
        close()
        inlet.submit(.completion(completion, from: self))
    }

    /// Takes the first value that waits, of which there is one for each arrival.
    func next() -> Input { lock.with { queue.popFirst()! } }

    override func advance() { latest = next() }

    var description: String { "\(inlet)" }
}

/// The sides of a machine whose upstreams differ in what they deliver, as they are made.
struct Sides<Output, Failure: Error> {
    private let inlet: Inlet<ArrivalSignal<Failure>, Output, Failure>
    private(set) var upstreams: [Upstream] = []
    private var subscribe: [() -> Void] = []

    init(_ inlet: Inlet<ArrivalSignal<Failure>, Output, Failure>) { self.inlet = inlet }

    mutating func add<P: Publisher>(_ publisher: P) -> QueueingUpstream<P.Output, Output, Failure>
    where P.Failure == Failure {
        let upstream = QueueingUpstream<P.Output, Output, Failure>(inlet)
        upstreams.append(upstream)
        subscribe.append { publisher.subscribe(upstream) }
        return upstream
    }

    /// Subscribes each, after this turn.
    func start() {
        inlet.afterwards { [inlet, subscribe] in
            for side in subscribe where !inlet.isOver { side() }
        }
    }
}
