// Operator: the kit for writing one's own operator with one upstream. The author says what becomes of values, of the
// completion and of demand; calls come one at a time, and no lock is held, whatever threads the events come from.

/// What an operator does. Made anew for each subscriber.
///
///     /// Lets every `n`th value pass.
///     struct EveryNth<Input, Failure: Error>: OperatorBehavior {
///         let n: Int
///         var seen = 0
///
///         mutating func receive(_ input: Input, _ outlet: Outlet<Input, Failure>) {
///             seen += 1
///             if seen % n == 0 { outlet.send(input) } else { outlet.requestUpstream(.max(1)) }
///         }
///     }
///
///     extension Publisher {
///         func every(_ n: Int) -> some Publisher<Output, Failure> {
///             Publishers.Custom(self, name: "EveryNth") { EveryNth(n: n) }
///         }
///     }
///
/// What the author need not think of: calls come one at a time, whatever threads events come from, and one call is over
/// before the next begins, also when the subscriber asks for more, cancels, or sends to a subject upstream from within
/// a value. Nothing comes after the end or after cancel, and what is sent then goes nowhere.
///
/// What is left to the author:
/// - send no more values than `outlet.demand` tells;
/// - ask upstream for no more than what can be sent or kept, as what was asked for may all come;
/// - do not wait for anything within a call: whoever does something to the stream meanwhile leaves it to be done by the
///   thread that is at work, which also is why a value may be delivered by another thread than the one that sent it.
public protocol OperatorBehavior<Input, InputFailure, Output, OutputFailure>: SendableMetatype {
    /// What comes from upstream.
    associatedtype Input
    /// How upstream can fail.
    associatedtype InputFailure: Error
    /// What goes to the subscriber.
    associatedtype Output
    /// How the stream can fail for the subscriber.
    associatedtype OutputFailure: Error

    /// The subscriber has its subscription. Does nothing unless it is written.
    mutating func start(_ outlet: Outlet<Output, OutputFailure>)
    /// A value came from upstream. Send what becomes of it; where nothing does, ask for one more in its place.
    mutating func receive(_ input: Input, _ outlet: Outlet<Output, OutputFailure>)
    /// Upstream ended.
    mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ outlet: Outlet<Output, OutputFailure>)
    /// The subscriber asked for `demand` more, by its subscription or by what it returned; `outlet.demand` contains
    /// it. Goes upstream as it is unless it is written.
    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, OutputFailure>)
    /// The stream has ended or was cancelled. Does nothing unless it is written.
    mutating func stop()
}

extension OperatorBehavior {
    public mutating func start(_ outlet: Outlet<Output, OutputFailure>) {}
    public mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, OutputFailure>) {
        outlet.requestUpstream(demand)
    }
    public mutating func stop() {}
}

extension OperatorBehavior where InputFailure == OutputFailure {
    /// The end of upstream is the end of the stream unless it is written.
    public mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ outlet: Outlet<Output, OutputFailure>
    ) {
        outlet.send(completion: completion)
    }
}

extension Publishers {
    /// A publisher made of an upstream and a behaviour of one's own.
    public struct Custom<Upstream: Publisher, Behavior: OperatorBehavior>: Publisher
    where Behavior.Input == Upstream.Output, Behavior.InputFailure == Upstream.Failure {
        public typealias Output = Behavior.Output
        public typealias Failure = Behavior.OutputFailure

        /// Whose values the behaviour receives.
        public let upstream: Upstream
        private let name: String
        private let behavior: @Sendable () -> Behavior

        /// - Parameters:
        ///   - upstream: whose values the behaviour receives.
        ///   - name: what its subscriptions are called in logs.
        ///   - behavior: called for each subscriber.
        public init(_ upstream: Upstream, name: String, behavior: @escaping @Sendable () -> Behavior) {
            self.upstream = upstream
            self.name = name
            self.behavior = behavior
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(Operator(behavior(), name: name, downstream: subscriber))
        }
    }
}

/// A behaviour as a machine with one upstream.
struct SingleUpstream<Behavior: OperatorBehavior>: StreamMachine {
    enum Signal {
        case value(Behavior.Input)
        case completion(Subscribers.Completion<Behavior.InputFailure>)
    }

    var behavior: Behavior

    mutating func start(_ outlet: Outlet<Behavior.Output, Behavior.OutputFailure>) { behavior.start(outlet) }

    mutating func receive(_ signal: Signal, _ outlet: Outlet<Behavior.Output, Behavior.OutputFailure>) {
        switch signal {
        case .value(let value): behavior.receive(value, outlet)
        case .completion(let completion): behavior.receive(completion: completion, outlet)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Behavior.Output, Behavior.OutputFailure>) {
        behavior.request(demand, outlet)
    }

    mutating func stop(_ outlet: Outlet<Behavior.Output, Behavior.OutputFailure>) { behavior.stop() }
}

/// One subscriber's instance of an operator: a subscriber of its upstream, a subscription for its downstream.
final class Operator<Behavior: OperatorBehavior, Downstream: Subscriber>:
    Runner<SingleUpstream<Behavior>, Downstream>, Subscriber, @unchecked Sendable
where Downstream.Input == Behavior.Output, Downstream.Failure == Behavior.OutputFailure {
    init(_ behavior: Behavior, name: String, downstream: Downstream) {
        super.init(SingleUpstream(behavior: behavior), name: name, downstream: downstream)
    }

    /// Upstream has begun or ended; there is none but the first.
    private var hasUpstream = false

    func receive(subscription: any Subscription) {
        lock.lock()
        guard !hasUpstream, !isOver else {
            lock.unlock()
            return subscription.cancel()
        }
        hasUpstream = true
        upstream = subscription
        lock.unlock()
        begin()
    }

    func receive(_ input: Behavior.Input) -> Subscribers.Demand {
        take(.value(input))
    }

    func receive(completion: Subscribers.Completion<Behavior.InputFailure>) {
        // It is not to be cancelled or asked any more.
        let ended = lock.with { upstream.take() }
        if ended != nil { submit(.completion(completion)) }
    }
}
