// Upstreams: the subscribers of a machine with several upstreams. Each passes its events to the machine as signals,
// from any thread. The machine's requests to them are sent after it has handled its events.

/// One upstream of a machine, as the machine sees it.
class Upstream: @unchecked Sendable {
    private let lock = Lock()

    // Protected by the lock.
    private var subscription: (any Subscription)?
    /// Demand that has not been sent yet.
    private var wanted = Subscribers.Demand.none
    /// Whether the upstream is delivering a value. Demand requested in the meantime is returned from that call.
    private var isReceiving = false
    private var isOver = false

    // Used only by the machine.

    /// The machine's index of this upstream.
    final var index = 0
    /// The number of the upstream's values that wait in the machine.
    final var held = 0
    /// Demand requested from the upstream and not yet delivered.
    final var asked = Subscribers.Demand.none
    /// Whether the machine has received the upstream's completion.
    final var hasEnded = false

    /// Makes the first waiting value the latest, in a subclass that queues values.
    func advance() {}

    /// - Returns: true if `flush` must be called.
    fileprivate final func want(_ demand: Subscribers.Demand) -> Bool {
        lock.with {
            guard !isOver else { return false }
            let isFirst = wanted == .none
            wanted += demand
            return isFirst && !isReceiving
        }
    }

    /// Requests the pending demand, unless a call in progress will return it.
    final func flush() {
        lock.lock()
        guard !isReceiving, let subscription, wanted > .none else { return lock.unlock() }
        let demand = wanted
        wanted = .none
        lock.unlock()
        subscription.request(demand)
    }

    /// Ends the upstream, whether or not it has begun.
    final func cancel() { close()?.cancel() }

    // Called for what it receives.

    fileprivate final func open(_ subscription: any Subscription) {
        let isFirst = lock.with {
            guard self.subscription == nil, !isOver else { return false }
            self.subscription = subscription
            return true
        }
        if isFirst { flush() } else { subscription.cancel() }
    }

    /// - Returns: true if another value is wanted.
    fileprivate final func beginReceiving() -> Bool {
        lock.with {
            guard !isOver else { return false }
            isReceiving = true
            return true
        }
    }

    /// - Returns: the demand requested since `beginReceiving`.
    fileprivate final func endReceiving() -> Subscribers.Demand {
        lock.with {
            isReceiving = false
            defer { wanted = .none }
            return isOver ? .none : wanted
        }
    }

    fileprivate final func isOpen() -> Bool { lock.with { !isOver } }

    /// Closes the upstream, which has ended or is no longer wanted. The caller releases the subscription.
    @discardableResult fileprivate final func close() -> (any Subscription)? {
        lock.with {
            isOver = true
            return subscription.take()
        }
    }
}

extension Outlet {
    /// Requests more from one of several upstreams, after this call.
    final func request(_ demand: Subscribers.Demand, of upstream: Upstream) {
        if demand > .none, upstream.want(demand) { owing.append(upstream) }
    }
}

/// A signal for a machine with several upstreams of the same type; the signal names the upstream.
enum UpstreamSignal<Input, Failure: Error> {
    case value(Input, from: Upstream)
    case completion(Subscribers.Completion<Failure>, from: Upstream)
}

/// An upstream whose events are submitted as signals.
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

/// A signal for a machine whose upstreams have different types: the signal only says that a value can be taken.
enum ArrivalSignal<Failure: Error> {
    case arrival(from: Upstream)
    case completion(Subscribers.Completion<Failure>, from: Upstream)
}

/// An upstream that queues its values until the machine takes them, no more than were requested.
final class QueueingUpstream<Input, Output, Failure: Error>: Upstream, Subscriber, CustomStringConvertible,
    @unchecked Sendable
{
    private let inlet: Inlet<ArrivalSignal<Failure>, Output, Failure>
    private let lock = Lock()
    private var queue = Queue<Input>()
    /// The value taken last; used only by the machine.
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

    /// Takes the first waiting value. There is one for each arrival.
    func next() -> Input { lock.with { queue.popFirst()! } }

    override func advance() { latest = next() }

    var description: String { "\(inlet)" }
}

/// Collects the upstreams of a machine whose upstreams have different types.
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

    /// Subscribes to all upstreams, after the current call.
    func start() {
        inlet.afterwards { [inlet, subscribe] in
            for side in subscribe where !inlet.isOver { side() }
        }
    }
}
