// Tap: observes each call between a subscriber and its upstream, on the thread that makes the call. The basis of
// handleEvents and print.

/// Closures that are called for events, each before its event is passed on.
struct TapEvents<Output, Failure: Error> {
    var subscription: (any Subscription) -> Void = { _ in }
    var output: (Output) -> Void = { _ in }
    var completion: (Subscribers.Completion<Failure>) -> Void = { _ in }
    var cancel: () -> Void = {}
    /// `isReturned`: the subscriber returned this demand when it received a value.
    var request: (_ demand: Subscribers.Demand, _ isReturned: Bool) -> Void = { _, _ in }
}

final class Tap<Downstream: Subscriber>: Subscriber, Subscription, CustomStringConvertible, @unchecked Sendable {
    typealias Input = Downstream.Input
    typealias Failure = Downstream.Failure

    let description: String
    private let lock = Lock()
    private let events: TapEvents<Input, Failure>
    private var downstream: Downstream?
    private var upstream: (any Subscription)?

    init(_ events: TapEvents<Input, Failure>, name: String, downstream: Downstream) {
        self.events = events
        description = name
        self.downstream = downstream
    }

    func receive(subscription: any Subscription) {
        events.subscription(subscription)
        let isFirst = lock.with {
            guard upstream == nil, downstream != nil else { return false }
            upstream = subscription
            return true
        }
        if isFirst { downstream?.receive(subscription: self) } else { subscription.cancel() }
    }

    func receive(_ input: Input) -> Subscribers.Demand {
        guard let downstream = lock.with({ upstream == nil ? nil : downstream }) else { return .none }
        events.output(input)
        let more = downstream.receive(input)
        if more > .none { events.request(more, true) }
        return more
    }

    func receive(completion: Subscribers.Completion<Failure>) {
        guard let downstream = end().downstream else { return }
        events.completion(completion)
        downstream.receive(completion: completion)
    }

    func request(_ demand: Subscribers.Demand) {
        guard let upstream = lock.with({ upstream }) else { return }
        events.request(demand, false)
        upstream.request(demand)
    }

    func cancel() {
        let (upstream, downstream) = end()
        guard downstream != nil else { return }
        events.cancel()
        upstream?.cancel()
    }

    /// Clears upstream and downstream. The caller releases them outside of the lock.
    private func end() -> (upstream: (any Subscription)?, downstream: Downstream?) {
        lock.with { (upstream.take(), downstream.take()) }
    }
}
