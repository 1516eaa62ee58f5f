// Just, and the publishers of an optional and of a result: at most one value.

/// Publishes one value, then finishes.
public struct Just<Output>: Publisher {
    public typealias Failure = Never

    /// The value.
    public let output: Output

    /// Publishes `output` to each subscriber, then finishes.
    public init(_ output: Output) { self.output = output }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Never {
        Runner(SingleMachine<Output, Never>(value: output), name: "Just", downstream: subscriber).begin()
    }
}

extension Just: Equatable where Output: Equatable {}

extension Optional {
    /// Publishes the value, if there is one, then finishes.
    public struct Publisher: StreamsCore.Publisher {
        public typealias Output = Wrapped
        public typealias Failure = Never

        /// The value, if there is one.
        public let output: Wrapped?

        /// Publishes the value, if there is one, then finishes.
        public init(_ output: Wrapped?) { self.output = output }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Wrapped, S.Failure == Never {
            if let output {
                Runner(SingleMachine<Output, Never>(value: output), name: "Optional", downstream: subscriber).begin()
            } else {
                subscriber.receive(subscription: Subscriptions.empty)
                subscriber.receive(completion: .finished)
            }
        }
    }

    /// A publisher of the value, if there is one.
    public var publisher: Publisher { Publisher(self) }
}

extension Optional.Publisher: Equatable where Wrapped: Equatable {}

extension Result {
    /// Publishes the value and finishes, or fails.
    public struct Publisher: StreamsCore.Publisher {
        public typealias Output = Success

        /// The published result.
        public let result: Result

        /// Publishes the value and finishes, or fails immediately.
        public init(_ result: Result) { self.result = result }
        /// Publishes a value, then finishes.
        public init(_ output: Output) { self.init(.success(output)) }
        /// Fails immediately.
        public init(_ failure: Failure) { self.init(.failure(failure)) }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            switch result {
            case .success(let output):
                Runner(SingleMachine<Output, Failure>(value: output), name: "Once", downstream: subscriber).begin()
            case .failure(let failure):
                subscriber.receive(subscription: Subscriptions.empty)
                subscriber.receive(completion: .failure(failure))
            }
        }
    }

    /// A publisher of the value, or of the failure.
    public var publisher: Publisher { Publisher(self) }
}

extension Result.Publisher: Equatable where Success: Equatable, Failure: Equatable {}

private struct SingleMachine<Output, Failure: Error>: StreamMachine {
    typealias Signal = Never

    let value: Output

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>) {
        outlet.send(value)
        outlet.send(completion: .finished)
    }

    mutating func receive(_ signal: Never, _ outlet: Outlet<Output, Failure>) {}
}
