// CurrentValueSubject: a mutable value that publishes its changes.

/// A subject that keeps its latest value. Each subscriber receives that value on its first demand, and then every later
/// value for which it has demand. Of the values for which it had no demand, it receives the latest.
public final class CurrentValueSubject<Output, Failure: Error>: Subject {
    private let core: SubjectCore<Output, Failure>

    /// Starts with a value, which each subscriber receives first unless it is replaced.
    public init(_ value: Output) { core = SubjectCore(current: value) }

    /// The latest value. Setting this property sends the new value. After the completion, the new value is stored but
    /// not sent.
    public final var value: Output {
        get { core.latest! }
        set { core.send(newValue, keepsAfterEnd: true) }
    }

    public func send(_ value: Output) { core.send(value) }
    public func send(completion: Subscribers.Completion<Failure>) { core.send(completion: completion) }
    public func send(subscription: any Subscription) { core.upstreams.add(subscription) }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        core.attach(subscriber) { current, order in
            let machine = CurrentValue(subject: self, core: core, pending: current, order: order)
            return Runner(machine, name: "CurrentValueSubject", downstream: subscriber)
        }
    }
}

/// Safe to use from any thread if its values are `Sendable`.
extension CurrentValueSubject: @unchecked Sendable where Output: Sendable {}

extension CurrentValueSubject: FedSubject {
    var upstreams: SubjectUpstreams { core.upstreams }
}

private struct CurrentValue<Output, Failure: Error>: StreamMachine {
    /// Keeps the subject alive as long as it has a subscriber.
    let subject: AnyObject
    let core: SubjectCore<Output, Failure>
    /// The latest value if it has not been delivered.
    var pending: Output?
    /// The order of the latest value seen.
    var order: UInt64
    var hasAsked = false

    mutating func receive(_ signal: SubjectSignal<Output, Failure>, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .value(let value, let order):
            // A newer value, from another thread, came first.
            guard order > self.order else { return }
            self.order = order
            pending = value
            deliver(outlet)
        case .completion(let completion):
            outlet.send(completion: completion)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        if !hasAsked { outlet.afterwards { [core] in core.upstreams.want() } }
        hasAsked = true
        deliver(outlet)
    }

    private mutating func deliver(_ outlet: Outlet<Output, Failure>) {
        if outlet.demand > .none, let value = pending.take() { outlet.send(value) }
    }

    static func surplus(_ signal: SubjectSignal<Output, Failure>) -> Surplus {
        if case .value = signal { .latest } else { .kept }
    }

    mutating func stop(_ outlet: Outlet<Output, Failure>) { core.remove(ObjectIdentifier(outlet)) }
}
