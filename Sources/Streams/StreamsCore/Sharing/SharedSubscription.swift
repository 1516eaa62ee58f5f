// SharedSubscription: passes all events between a publisher and a subscriber, and calls a closure on cancellation.

/// It passes nothing on after the completion or a cancellation.
final class SharedSubscription<Downstream: Subscriber>: Subscriber, Subscription, CustomStringConvertible,
    @unchecked Sendable
{
    private let lock = Lock()
    private var onCancel: (() -> Void)?
    private var downstream: Downstream?
    private var upstream: (any Subscription)?
    private let name: String?

    /// - Parameters:
    ///   - name: the description; by default, that of the upstream subscription.
    ///   - onCancel: called at most once, before upstream is cancelled.
    init(name: String? = nil, downstream: Downstream, onCancel: (() -> Void)? = nil) {
        self.name = name
        self.downstream = downstream
        self.onCancel = onCancel
    }

    func receive(subscription: any Subscription) {
        let downstream = lock.with { () -> Downstream? in
            guard upstream == nil, let downstream = self.downstream else { return nil }
            upstream = subscription
            return downstream
        }
        if let downstream { downstream.receive(subscription: self) } else { subscription.cancel() }
    }

    func receive(_ input: Downstream.Input) -> Subscribers.Demand {
        lock.with { upstream == nil ? nil : downstream }?.receive(input) ?? .none
    }

    func receive(completion: Subscribers.Completion<Downstream.Failure>) {
        close().downstream?.receive(completion: completion)
    }

    func request(_ demand: Subscribers.Demand) { lock.with { upstream }?.request(demand) }

    func cancel() {
        let held = close()
        held.onCancel?()
        held.upstream?.cancel()
    }

    var description: String { name ?? lock.with { upstream }.map { "\($0)" } ?? "Shared" }

    /// Clears the state. The caller releases the returned values outside of the lock.
    private func close() -> (downstream: Downstream?, upstream: (any Subscription)?, onCancel: (() -> Void)?) {
        lock.with { (downstream.take(), upstream.take(), onCancel.take()) }
    }
}
