// Sink: a subscriber that requests unlimited values.

extension Subscribers {
    /// Requests unlimited values and passes all events to two closures. A sink accepts one subscription; any others are
    /// cancelled.
    public final class Sink<Input, Failure: Error>: Subscriber, Cancellable, CustomStringConvertible,
        @unchecked Sendable
    {
        private enum State {
            case waiting
            case subscribed(any Subscription)
            case over
        }

        private let lock = Lock()
        private var state = State.waiting
        private var value: (Input) -> Void
        private var completion: (Subscribers.Completion<Failure>) -> Void

        /// Calls these closures. A failure is part of the completion.
        public init(
            receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
            receiveValue: @escaping @Sendable (Input) -> Void
        ) {
            value = receiveValue
            completion = receiveCompletion
        }

        /// The closure for values, which does nothing once the stream has ended.
        public var receiveValue: (Input) -> Void { lock.with { value } }
        /// The closure for the completion, which does nothing once the stream has ended.
        public var receiveCompletion: (Subscribers.Completion<Failure>) -> Void { lock.with { completion } }

        public func receive(subscription: any Subscription) {
            let isFirst = lock.with {
                guard case .waiting = state else { return false }
                state = .subscribed(subscription)
                return true
            }
            if isFirst { subscription.request(.unlimited) } else { subscription.cancel() }
        }

        public func receive(_ value: Input) -> Subscribers.Demand {
            receiveValue(value)
            return .none
        }

        public func receive(completion: Subscribers.Completion<Failure>) {
            let closures = end()
            closures.completion(completion)
        }

        public func cancel() {
            let ended = end()
            if case .subscribed(let subscription) = ended.state { subscription.cancel() }
        }

        /// Clears the state. The caller releases the returned values outside of the lock.
        private func end() -> (
            state: State, value: (Input) -> Void, completion: (Subscribers.Completion<Failure>) -> Void
        ) {
            lock.with {
                let held = (state, value, completion)
                state = .over
                value = { _ in }
                completion = { _ in }
                return held
            }
        }

        public var description: String { "Sink" }
    }
}

extension Publisher {
    /// Receives all values and the completion with closures.
    /// - Returns: a cancellable that ends the subscription when it is cancelled or released.
    public func sink(
        receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
        receiveValue: @escaping @Sendable (Output) -> Void
    ) -> AnyCancellable {
        let sink = Subscribers.Sink(receiveCompletion: receiveCompletion, receiveValue: receiveValue)
        subscribe(sink)
        return AnyCancellable(sink)
    }
}

extension Publisher where Failure == Never {
    /// Receives all values with a closure.
    /// - Returns: a cancellable that ends the subscription when it is cancelled or released.
    public func sink(receiveValue: @escaping @Sendable (Output) -> Void) -> AnyCancellable {
        sink(receiveCompletion: { _ in }, receiveValue: receiveValue)
    }
}

extension Publisher {
    /// A publisher that can fail requires `sink(receiveCompletion:receiveValue:)`, so that its failure is not lost.
    @available(*, unavailable, message: "this publisher can fail; pass receiveCompletion as well")
    public func sink(receiveValue: @escaping @Sendable (Output) -> Void) -> AnyCancellable {
        preconditionFailure()
    }
}
