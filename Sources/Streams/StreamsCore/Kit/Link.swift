// Link: a subscriber for an operator that subscribes to publishers itself, one link for each publisher. The operator
// holds the link's subscription, which exists before the publisher has delivered its own. Demand waits for that, and an
// early cancellation is not lost.
//
//     operator ─→ LinkSubscription ─→ the publisher's subscription ─→ Link ─→ operator
//
// So it is the publisher that keeps the operator alive, as with every subscriber. A publisher that never delivers a
// subscription and releases the link releases the operator too.

final class Link<Input, Failure: Error>: Subscriber, CustomStringConvertible, @unchecked Sendable {
    /// Closures for the link's events, released at the end.
    struct Handlers {
        /// Called first, before any waiting demand is sent upstream.
        var subscription: () -> Void = {}
        var value: (Input) -> Subscribers.Demand
        var completion: (Subscribers.Completion<Failure>) -> Void
    }

    let subscription: LinkSubscription
    /// Protected by the subscription's lock.
    private var handlers: Handlers?

    init(_ subscription: LinkSubscription, _ handlers: Handlers) {
        self.subscription = subscription
        self.handlers = handlers
        subscription.link = self
    }

    func receive(subscription publisher: any Subscription) {
        let handlers = subscription.lock.with { subscription.isWaiting ? self.handlers : nil }
        guard let handlers else { return publisher.cancel() }
        // Demand requested during this call waits as well.
        handlers.subscription()
        guard let demand = subscription.begin(with: publisher) else { return publisher.cancel() }
        if demand > .none { publisher.request(demand) }
    }

    func receive(_ input: Input) -> Subscribers.Demand {
        let handlers = subscription.lock.with { subscription.isSubscribed ? self.handlers : nil }
        return handlers?.value(input) ?? .none
    }

    func receive(completion: Subscribers.Completion<Failure>) {
        let (ended, handlers) = subscription.lock.with { () -> (LinkSubscription.State?, Handlers?) in
            guard subscription.isSubscribed else { return (nil, nil) }
            return (subscription.end(), self.handlers.take())
        }
        handlers?.completion(completion)
        _ = ended
    }

    var description: String { subscription.description }
}

extension Link: Linked {
    func letGo() {
        let handlers = subscription.lock.with { self.handlers.take() }
        _ = handlers
    }
}

/// A link of any type.
private protocol Linked: AnyObject {
    /// Releases the handlers: no more events are wanted.
    func letGo()
}

/// The operator's end of a link.
final class LinkSubscription: Subscription, CustomStringConvertible, @unchecked Sendable {
    fileprivate enum State {
        case waiting(Subscribers.Demand)
        case subscribed(any Subscription)
        case over
    }

    let description: String
    fileprivate let lock = Lock()
    private var state = State.waiting(.none)
    /// Set once, before any other object knows of either.
    fileprivate weak var link: (any Linked)?

    init(name: String) { description = name }

    func request(_ demand: Subscribers.Demand) {
        lock.lock()
        switch state {
        case .waiting(let before):
            state = .waiting(before + demand)
            lock.unlock()
        case .subscribed(let subscription):
            lock.unlock()
            subscription.request(demand)
        case .over:
            lock.unlock()
        }
    }

    func cancel() {
        let before = lock.with { end() }
        if case .subscribed(let subscription) = before { subscription.cancel() }
        link?.letGo()
    }

    // Called with the lock held.

    fileprivate var isWaiting: Bool { if case .waiting = state { true } else { false } }
    fileprivate var isSubscribed: Bool { if case .subscribed = state { true } else { false } }

    /// - Returns: the previous state, for the caller to release without the lock.
    fileprivate func end() -> State {
        defer { state = .over }
        return state
    }

    // Called without the lock.

    /// - Returns: the demand requested before, or nil if a subscription is no longer wanted.
    fileprivate func begin(with subscription: any Subscription) -> Subscribers.Demand? {
        lock.with {
            guard case .waiting(let demand) = state else { return nil }
            state = .subscribed(subscription)
            return demand
        }
    }
}
