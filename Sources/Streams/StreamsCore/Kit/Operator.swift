// Operator: the kit for custom operators with one upstream. Its author decides what happens to values, the completion
// and demand. Calls come one at a time and without a lock held, whatever threads the events come from.

/// The behavior of an operator. Created for each subscriber.
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
/// The kit guarantees that calls come one at a time, whatever threads events come from. One call returns before the
/// next begins, even if the subscriber requests more, cancels, or sends to an upstream subject while it receives a
/// value. No call follows the end or a cancellation, and anything sent then is ignored.
///
/// The author's responsibilities:
/// - Send no more values than `outlet.demand` allows.
/// - Request no more from upstream than can be sent or kept, because all of it may arrive.
/// - Do not block within a call. Events that arrive in the meantime are left to the thread that is in the call. For the
///   same reason, a value may be delivered by another thread than the one that sent it.
public protocol OperatorBehavior<Input, InputFailure, Output, OutputFailure>: SendableMetatype {
    /// The type of the values from upstream.
    associatedtype Input
    /// The type of upstream's failure.
    associatedtype InputFailure: Error
    /// The type of the values for the subscriber.
    associatedtype Output
    /// The type of failure that the subscriber receives.
    associatedtype OutputFailure: Error

    /// The subscriber has received its subscription. Does nothing by default.
    mutating func start(_ outlet: Outlet<Output, OutputFailure>)
    /// A value arrived from upstream. Send the result; if there is none, request another value in its place.
    mutating func receive(_ input: Input, _ outlet: Outlet<Output, OutputFailure>)
    /// Upstream ended.
    mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ outlet: Outlet<Output, OutputFailure>)
    /// The subscriber requested `demand` more values, through its subscription or a return value; `outlet.demand`
    /// includes them. By default, they are requested from upstream.
    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, OutputFailure>)
    /// The stream has ended or was cancelled. Does nothing by default.
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
    /// By default, the upstream's completion ends the stream.
    public mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ outlet: Outlet<Output, OutputFailure>
    ) {
        outlet.send(completion: completion)
    }
}

extension Publishers {
    /// A publisher made of an upstream and a custom behavior.
    public struct Custom<Upstream: Publisher, Behavior: OperatorBehavior>: Publisher
    where Behavior.Input == Upstream.Output, Behavior.InputFailure == Upstream.Failure {
        public typealias Output = Behavior.Output
        public typealias Failure = Behavior.OutputFailure

        /// The publisher whose values the behavior receives.
        public let upstream: Upstream
        private let name: String
        private let behavior: @Sendable () -> Behavior

        /// - Parameters:
        ///   - upstream: the publisher whose values the behavior receives.
        ///   - name: the name of its subscriptions in logs.
        ///   - behavior: creates a behavior; called for each subscriber.
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

/// A behavior as a state machine with one upstream.
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

/// An operator for one subscriber: it is a subscriber of its upstream and the subscription of its downstream.
final class Operator<Behavior: OperatorBehavior, Downstream: Subscriber>:
    Runner<SingleUpstream<Behavior>, Downstream>, Subscriber, @unchecked Sendable
where Downstream.Input == Behavior.Output, Downstream.Failure == Behavior.OutputFailure {
    init(_ behavior: Behavior, name: String, downstream: Downstream) {
        super.init(SingleUpstream(behavior: behavior), name: name, downstream: downstream)
    }

    /// Whether an upstream has begun. Only the first is accepted.
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
        // From now on, upstream is neither cancelled nor asked for more.
        let ended = lock.with { upstream.take() }
        if ended != nil { submit(.completion(completion)) }
    }
}
