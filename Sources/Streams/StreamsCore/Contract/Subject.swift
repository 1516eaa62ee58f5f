// Subject: a publisher whose values are sent by its user.

/// A publisher whose values are sent from outside. It can be used from any thread.
public protocol Subject<Output, Failure>: AnyObject, Publisher {
    /// Publishes a value.
    func send(_ value: Output)
    /// Ends the stream. Anything sent afterwards is ignored.
    func send(completion: Subscribers.Completion<Failure>)
    /// Connects the subject to an upstream. The subject requests values from the upstream once its subscribers want
    /// any.
    func send(subscription: any Subscription)
}

extension Subject where Output == Void {
    /// Sends an event that has no value.
    public func send() { send(()) }
}

/// Forwards a publisher's events to a subject.
final class SubjectSubscriber<S: Subject>: Subscriber, Subscription, CustomStringConvertible, @unchecked Sendable {
    private let lock = Lock()
    private var subject: S?
    private var upstream: (any Subscription)?

    init(_ subject: S) { self.subject = subject }

    func receive(subscription: any Subscription) {
        let subject = lock.with { () -> S? in
            guard upstream == nil, let subject = self.subject else { return nil }
            upstream = subscription
            return subject
        }
        // The subject decides when to request and how much. It gets this object as its subscription, so that canceling
        // goes through it.
        if let subject { subject.send(subscription: self) } else { subscription.cancel() }
    }

    func receive(_ input: S.Output) -> Subscribers.Demand {
        lock.with { upstream == nil ? nil : subject }?.send(input)
        return .none
    }

    func receive(completion: Subscribers.Completion<S.Failure>) {
        take().subject?.send(completion: completion)
    }

    func request(_ demand: Subscribers.Demand) { lock.with { upstream }?.request(demand) }

    func cancel() { take().upstream?.cancel() }

    private func take() -> (subject: S?, upstream: (any Subscription)?) {
        let held = lock.with {
            defer { (subject, upstream) = (nil, nil) }
            return (subject, upstream)
        }
        (held.0 as? any FedSubject)?.upstreams.remove(combineIdentifier)
        return held
    }

    var description: String { "Subject" }
}
