// PassthroughSubject: passes values on to the subscribers that currently have demand.

/// A subject that stores nothing: each value is sent to the subscribers that have demand, and is lost for the others.
public final class PassthroughSubject<Output, Failure: Error>: Subject {
    private let core = SubjectCore<Output, Failure>(current: nil)

    /// Starts without subscribers.
    public init() {}

    public func send(_ value: Output) { core.send(value) }
    public func send(completion: Subscribers.Completion<Failure>) { core.send(completion: completion) }
    public func send(subscription: any Subscription) { core.upstreams.add(subscription) }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        core.attach(subscriber) { _, _ in
            Runner(Passthrough(subject: self, core: core), name: "PassthroughSubject", downstream: subscriber)
        }
    }
}

/// Safe to use from any thread if its values are `Sendable`.
extension PassthroughSubject: @unchecked Sendable where Output: Sendable {}

extension PassthroughSubject: FedSubject {
    var upstreams: SubjectUpstreams { core.upstreams }
}

/// A subscriber of a subject that stores nothing.
struct Passthrough<Output, Failure: Error>: StreamMachine {
    /// Keeps the subject alive as long as it has a subscriber; nil if the subject should not be kept alive.
    let subject: AnyObject?
    let core: SubjectCore<Output, Failure>
    private var hasAsked = false

    init(subject: AnyObject?, core: SubjectCore<Output, Failure>) {
        self.subject = subject
        self.core = core
    }

    mutating func receive(_ signal: SubjectSignal<Output, Failure>, _ outlet: Outlet<Output, Failure>) {
        switch signal {
        case .value(let value, _): if outlet.demand > .none { outlet.send(value) }
        case .completion(let completion): outlet.send(completion: completion)
        }
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        guard !hasAsked else { return }
        hasAsked = true
        outlet.afterwards { [core] in core.upstreams.want() }
    }

    static func surplus(_ signal: SubjectSignal<Output, Failure>) -> Surplus {
        if case .value = signal { .dropped } else { .kept }
    }

    mutating func stop(_ outlet: Outlet<Output, Failure>) { core.remove(ObjectIdentifier(outlet)) }
}
