// DemandSink: a subscriber whose demand is set explicitly.

/// Receives values until its demand is used up, and continues when the demand is increased.
public protocol Resumable: Sendable {
    /// Adds to the demand.
    func resume(_ demand: Subscribers.Demand)
}

/// Passes values to a closure and requests only as many as its user asks for. The sink accepts one subscription; any
/// others are cancelled.
public final class DemandSink<Input, Failure: Error>: Subscriber, Cancellable, Resumable, CustomStringConvertible,
    @unchecked Sendable
{
    private let core: SinkCore<Input, Failure>
    private let lock = Lock()
    /// Demand from before there was a subscription.
    private var early: Subscribers.Demand?

    /// - Parameters:
    ///   - demand: what the sink requests when it is subscribed.
    ///   - receiveCompletion: called with the completion.
    ///   - receiveValue: called with every value.
    public init(
        demand: Subscribers.Demand, receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
        receiveValue: @escaping @Sendable (Input) -> Void
    ) {
        early = demand
        core = SinkCore(completion: receiveCompletion) {
            receiveValue($0)
            return .none
        }
    }

    /// - Parameters:
    ///   - demand: the number of values that the sink requests when it is subscribed, at least 0.
    ///   - receiveCompletion: called with the completion.
    ///   - receiveValue: called with every value.
    public convenience init(
        demand: Int, receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
        receiveValue: @escaping @Sendable (Input) -> Void
    ) {
        self.init(demand: .max(demand), receiveCompletion: receiveCompletion, receiveValue: receiveValue)
    }

    /// Requests more values.
    public func increaseDemand(_ demand: Subscribers.Demand) {
        let isEarly = lock.with {
            if early != nil { early! += demand }
            return early != nil
        }
        if !isEarly, demand > .none { core.request(demand) }
    }

    /// Requests `count` more values, at least 0.
    public func increaseDemand(_ count: Int) { increaseDemand(.max(count)) }

    public func resume(_ demand: Subscribers.Demand) { increaseDemand(demand) }

    public func receive(subscription: any Subscription) {
        guard core.open(subscription) else { return subscription.cancel() }
        let demand = lock.with { early.take() }
        if let demand, demand > .none { core.request(demand) }
    }

    public func receive(_ input: Input) -> Subscribers.Demand { core.receive(input) }
    public func receive(completion: Subscribers.Completion<Failure>) { core.end(completion) }
    public func cancel() { core.cancel() }
    public var description: String { "DemandSink" }
}

extension Publisher {
    /// Receives values only as requested with `resume(_:)`.
    public func resumableSink(
        receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
        receiveValue: @escaping @Sendable (Output) -> Void
    ) -> any Resumable & Cancellable {
        let sink = DemandSink<Output, Failure>(
            demand: .none, receiveCompletion: receiveCompletion, receiveValue: receiveValue)
        subscribe(sink)
        return sink
    }
}

/// The common part of the sinks that limit their demand: a subscription and two closures, released at the end.
final class SinkCore<Input, Failure: Error>: @unchecked Sendable {
    private let lock = Lock()
    private var subscription: (any Subscription)?
    private var value: ((Input) -> Subscribers.Demand)?
    private var completion: ((Subscribers.Completion<Failure>) -> Void)?

    /// - Parameter value: returns additional demand.
    init(
        completion: @escaping (Subscribers.Completion<Failure>) -> Void,
        value: @escaping (Input) -> Subscribers.Demand
    ) {
        self.value = value
        self.completion = completion
    }

    /// - Returns: false if there is already a subscription, or the stream has ended.
    func open(_ subscription: any Subscription) -> Bool {
        lock.with {
            guard self.subscription == nil, value != nil else { return false }
            self.subscription = subscription
            return true
        }
    }

    func request(_ demand: Subscribers.Demand) { lock.with { subscription }?.request(demand) }

    func receive(_ input: Input) -> Subscribers.Demand { lock.with { value }?(input) ?? .none }

    func end(_ completion: Subscribers.Completion<Failure>) { close().completion?(completion) }

    func cancel() { close().subscription?.cancel() }

    /// Clears the state. The caller releases the returned values outside of the lock.
    private func close() -> (
        subscription: (any Subscription)?, completion: ((Subscribers.Completion<Failure>) -> Void)?, value: Any?
    ) {
        lock.with { (subscription.take(), completion.take(), value.take()) }
    }
}
