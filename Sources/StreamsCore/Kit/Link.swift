// Link: a subscriber for an operator with several upstreams, one for each of them. It is also that upstream's
// subscription, from before there is one: demand waits for it, and cancelling is not forgotten.

final class Link<Input, Failure: Error>: Subscriber, Subscription, CustomStringConvertible, @unchecked Sendable {
    /// What is done with what comes. Let go of at the end.
    struct Handlers {
        /// The first that happens, before demand that has waited goes upstream.
        var subscription: () -> Void = {}
        var value: (Input) -> Subscribers.Demand
        var completion: (Subscribers.Completion<Failure>) -> Void
    }

    private enum State {
        case waiting(Subscribers.Demand)
        case subscribed(any Subscription)
        case over
    }

    let description: String
    private let lock = Lock()
    private var state = State.waiting(.none)
    private var handlers: Handlers?

    init(name: String) { description = name }

    /// To be called before it is subscribed.
    func handle(with handlers: Handlers) { self.handlers = handlers }

    func receive(subscription: any Subscription) {
        lock.lock()
        guard case .waiting = state, let handlers else {
            lock.unlock()
            return subscription.cancel()
        }
        lock.unlock()
        // Demand that is made from within waits like that before.
        handlers.subscription()
        lock.lock()
        guard case .waiting(let demand) = state else {
            lock.unlock()
            return subscription.cancel()
        }
        state = .subscribed(subscription)
        lock.unlock()
        if demand > .none { subscription.request(demand) }
    }

    func receive(_ input: Input) -> Subscribers.Demand {
        let handlers = lock.with { () -> Handlers? in
            if case .subscribed = state { self.handlers } else { nil }
        }
        return handlers?.value(input) ?? .none
    }

    func receive(completion: Subscribers.Completion<Failure>) {
        let handlers = lock.with { () -> Handlers? in
            guard case .subscribed = state else { return nil }
            state = .over
            return self.handlers.take()
        }
        handlers?.completion(completion)
    }

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
        let (before, handlers) = lock.with {
            defer { state = .over }
            return (state, self.handlers.take())
        }
        if case .subscribed(let subscription) = before { subscription.cancel() }
        _ = handlers
    }
}
