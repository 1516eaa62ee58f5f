// Recorder: a subscriber that asks only when it is told to, and remembers everything.

import StreamsCore

/// Records what it receives. Asks for nothing by itself but what `demand` says at first. Not for several threads.
public final class Recorder<Input, Failure: Error>: Subscriber, Cancellable {
    /// What happened, in order.
    public enum Entry {
        case subscription
        case value(Input)
        case completion(Subscribers.Completion<Failure>)
    }

    /// All that was received.
    public private(set) var history: [Entry] = []
    /// The first subscription received.
    public private(set) var subscription: (any Subscription)?
    /// Called with each value, after it was recorded; returns further demand.
    public var onValue: (Recorder, Input) -> Subscribers.Demand = { _, _ in .none }
    /// Called with each end, after it was recorded.
    public var onCompletion: (Recorder, Subscribers.Completion<Failure>) -> Void = { _, _ in }
    /// Called with each subscription, after it was recorded and asked for the initial demand.
    public var onSubscription: (Recorder, any Subscription) -> Void = { _, _ in }
    private let demand: Subscribers.Demand

    /// - Parameter demand: what the first subscription is asked for as soon as it comes.
    public init(demand: Subscribers.Demand = .none) { self.demand = demand }

    public func receive(subscription: any Subscription) {
        history.append(.subscription)
        if self.subscription == nil {
            self.subscription = subscription
            if demand > .none { subscription.request(demand) }
        }
        onSubscription(self, subscription)
    }

    public func receive(_ input: Input) -> Subscribers.Demand {
        history.append(.value(input))
        return onValue(self, input)
    }

    public func receive(completion: Subscribers.Completion<Failure>) {
        history.append(.completion(completion))
        onCompletion(self, completion)
    }

    /// Asks for more.
    public func request(_ demand: Subscribers.Demand) { subscription?.request(demand) }
    public func cancel() { subscription?.cancel() }

    /// Values and ends, without the subscription.
    public var events: [Subscribers.Event<Input, Failure>] {
        history.compactMap {
            switch $0 {
            case .subscription: nil
            case .value(let value): .value(value)
            case .completion(let completion): .completion(completion)
            }
        }
    }

    /// The values received.
    public var values: [Input] {
        history.compactMap { if case .value(let value) = $0 { value } else { nil } }
    }
}

extension Recorder.Entry: Equatable where Input: Equatable, Failure: Equatable {}

extension Publisher {
    /// Subscribes a recorder.
    public func record(demand: Subscribers.Demand = .unlimited) -> Recorder<Output, Failure> {
        let recorder = Recorder<Output, Failure>(demand: demand)
        subscribe(recorder)
        return recorder
    }
}
