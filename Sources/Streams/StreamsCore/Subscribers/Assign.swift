// Assign: a subscriber that writes to a property.

extension Subscribers {
    /// Requests unlimited values and writes each to a property of an object, which is retained until the stream ends.
    /// Accepts one subscription; any others are cancelled.
    public final class Assign<Root: Sendable, Input>: Subscriber, Cancellable, CustomStringConvertible,
        @unchecked Sendable
    {
        /// Failures cannot be assigned.
        public typealias Failure = Never

        private enum State {
            case waiting
            case subscribed(any Subscription)
            case over
        }

        private let lock = Lock()
        private var state = State.waiting
        private var root: Root?
        /// The property that is written.
        public let keyPath: ReferenceWritableKeyPath<Root, Input> & Sendable

        /// Writes to the property `keyPath` of `object`.
        public init(object: Root, keyPath: ReferenceWritableKeyPath<Root, Input> & Sendable) {
            root = object
            self.keyPath = keyPath
        }

        /// The object that is written to; nil once the stream has ended.
        public var object: Root? { lock.with { root } }

        public func receive(subscription: any Subscription) {
            let isFirst = lock.with {
                guard case .waiting = state else { return false }
                state = .subscribed(subscription)
                return true
            }
            if isFirst { subscription.request(.unlimited) } else { subscription.cancel() }
        }

        public func receive(_ value: Input) -> Subscribers.Demand {
            let object = lock.with { () -> Root? in
                if case .subscribed = state { root } else { nil }
            }
            object?[keyPath: keyPath] = value
            return .none
        }

        public func receive(completion: Subscribers.Completion<Never>) { _ = end() }

        public func cancel() {
            if case .subscribed(let subscription) = end().state { subscription.cancel() }
        }

        /// Clears the state. The caller releases the returned values outside of the lock.
        private func end() -> (state: State, object: Root?) {
            lock.with {
                let before = state
                state = .over
                return (before, root.take())
            }
        }

        public var description: String { "Assign \(Root.self)" }
    }
}

extension Publisher where Failure == Never {
    /// Writes each value to a property of an object, which is retained until the stream ends. The property is written
    /// on the publisher's thread, so the object must be safe to use there.
    /// - Returns: a cancellable that ends the subscription when it is cancelled or released.
    public func assign<Root: Sendable>(
        to keyPath: ReferenceWritableKeyPath<Root, Output> & Sendable, on object: Root
    ) -> AnyCancellable {
        let subscriber = Subscribers.Assign(object: object, keyPath: keyPath)
        subscribe(subscriber)
        return AnyCancellable(subscriber)
    }
}
