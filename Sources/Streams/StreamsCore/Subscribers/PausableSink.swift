// PausableSink: receives one value at a time, until its closure pauses it.

/// Pauses on its own, and continues when it is resumed.
public protocol Pausable: Sendable {
    /// Whether the sink is waiting to be resumed.
    var paused: Bool { get }
    /// Continues if the sink is paused.
    func resume()
}

extension Subscribers {
    /// Requests one value at a time and passes the value to a closure that decides whether to continue.
    public final class PausableSink<Input, Failure: Error>: Subscriber, Pausable, Cancellable, CustomStringConvertible,
        @unchecked Sendable
    {
        private enum State {
            case going
            /// The closure is being called, and `resume()` has not been called in the meantime.
            case calling
            /// `resume()` was called during the closure's call: the next pause is skipped.
            case resumed
            case paused
        }

        private let lock = Lock()
        private var state = State.going
        private var core: SinkCore<Input, Failure>!

        /// - Parameters:
        ///   - receiveCompletion: called with the completion.
        ///   - receiveValue: called with every value; returns true to continue, false to pause.
        public init(
            receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
            receiveValue: @escaping @Sendable (Input) -> Bool
        ) {
            core = SinkCore(completion: receiveCompletion) { [unowned self] in
                lock.with { state = .calling }
                return next(goesOn: receiveValue($0))
            }
        }

        private func next(goesOn: Bool) -> Subscribers.Demand {
            lock.with {
                if goesOn || state == .resumed { state = .going } else { state = .paused }
                return state == .going ? .max(1) : .none
            }
        }

        public var paused: Bool { lock.with { state == .paused } }

        public func resume() {
            let isPaused = lock.with {
                switch state {
                case .paused:
                    state = .going
                    return true
                case .calling:
                    state = .resumed
                    return false
                case .going, .resumed:
                    return false
                }
            }
            if isPaused { core.request(.max(1)) }
        }

        public func receive(subscription: any Subscription) {
            if core.open(subscription) { subscription.request(.max(1)) } else { subscription.cancel() }
        }

        public func receive(_ input: Input) -> Subscribers.Demand { core.receive(input) }
        public func receive(completion: Subscribers.Completion<Failure>) { core.end(completion) }
        public func cancel() { core.cancel() }
        public var description: String { "PausableSink" }
    }
}

extension Publisher {
    /// Receives one value at a time until `receiveValue` returns false; then pauses until it is resumed.
    public func pausableSink(
        receiveCompletion: @escaping @Sendable (Subscribers.Completion<Failure>) -> Void,
        receiveValue: @escaping @Sendable (Output) -> Bool
    ) -> any Pausable & Cancellable {
        let sink = Subscribers.PausableSink<Output, Failure>(
            receiveCompletion: receiveCompletion, receiveValue: receiveValue)
        subscribe(sink)
        return sink
    }
}
