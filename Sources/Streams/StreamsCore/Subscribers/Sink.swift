// Sink: a subscriber that takes everything.

extension Subscribers {
    /// Asks for all there is, and hands it to two closures. Takes one subscription in its life; others are cancelled.
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

        /// Calls these closures. A failure comes as part of the end.
        public init(
            receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
            receiveValue: @escaping @Sendable (Input) -> Void
        ) {
            value = receiveValue
            completion = receiveCompletion
        }

        /// What is called with every value. Does nothing once the stream is over.
        public var receiveValue: (Input) -> Void { lock.with { value } }
        /// What is called with the end. Does nothing once the stream is over.
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

        /// Lets go of what is held; the caller releases it, outside of the lock.
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
    /// Takes everything, by closures.
    /// - Returns: what ends it when it is cancelled or let go of.
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
    /// Takes every value, by a closure.
    /// - Returns: what ends it when it is cancelled or let go of.
    public func sink(receiveValue: @escaping @Sendable (Output) -> Void) -> AnyCancellable {
        sink(receiveCompletion: { _ in }, receiveValue: receiveValue)
    }
}

extension Publisher {
    /// A publisher that can fail needs `sink(receiveCompletion:receiveValue:)`, so that its failure is not lost.
    @available(*, unavailable, message: "this publisher can fail: give receiveCompletion as well")
    public func sink(receiveValue: @escaping @Sendable (Output) -> Void) -> AnyCancellable {
        preconditionFailure()
    }
}
