// Link: a subscriber for an operator that subscribes to publishers itself, one for each of them. The operator holds
// the link's subscription, which is there before there is one of the publisher's: demand waits for that, and cancelling
// is not forgotten.
//
//     operator ─→ LinkSubscription ─→ the publisher's subscription ─→ Link ─→ operator
//
// So what holds the operator is the publisher, as with every subscriber; one that never gives a subscription, and lets
// go of the link, lets go of the operator by that.

final class Link<Input, Failure: Error>: Subscriber, CustomStringConvertible, @unchecked Sendable {
    /// What is done with what comes. Let go of at the end.
    struct Handlers {
        /// The first that happens, before demand that has waited goes upstream.
        var subscription: () -> Void = {}
        var value: (Input) -> Subscribers.Demand
        var completion: (Subscribers.Completion<Failure>) -> Void
    }

    let subscription: LinkSubscription
    /// Under the subscription's lock.
    private var handlers: Handlers?

    init(_ subscription: LinkSubscription, _ handlers: Handlers) {
        self.subscription = subscription
        self.handlers = handlers
        subscription.link = self
    }

    func receive(subscription publisher: any Subscription) {
        let handlers = subscription.lock.with { subscription.isWaiting ? self.handlers : nil }
        guard let handlers else { return publisher.cancel() }
        // Demand that is made from within waits like that before.
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

/// A link, whatever comes through it.
private protocol Linked: AnyObject {
    /// Nothing that comes is wanted any more.
    func letGo()
}

/// What the operator has of a link.
final class LinkSubscription: Subscription, CustomStringConvertible, @unchecked Sendable {
    fileprivate enum State {
        case waiting(Subscribers.Demand)
        case subscribed(any Subscription)
        case over
    }

    let description: String
    fileprivate let lock = Lock()
    private var state = State.waiting(.none)
    /// Set once, before anybody else knows of either.
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

    // Under the lock

    fileprivate var isWaiting: Bool { if case .waiting = state { true } else { false } }
    fileprivate var isSubscribed: Bool { if case .subscribed = state { true } else { false } }

    /// - Returns: what it was, for the caller to let go of without the lock.
    fileprivate func end() -> State {
        defer { state = .over }
        return state
    }

    // Without it

    /// - Returns: what was asked for before, or nil if no subscription is wanted any more.
    fileprivate func begin(with subscription: any Subscription) -> Subscribers.Demand? {
        lock.with {
            guard case .waiting(let demand) = state else { return nil }
            state = .subscribed(subscription)
            return demand
        }
    }
}
