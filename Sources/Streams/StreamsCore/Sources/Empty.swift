// Empty and Fail: publishers without values.

/// Publishes no values, and finishes immediately or never.
public struct Empty<Output, Failure: Error>: Publisher, Equatable {
    /// Whether the publisher finishes immediately. If false, it never does anything.
    public let completeImmediately: Bool

    /// Finishes immediately, or never does anything if `completeImmediately` is false.
    public init(completeImmediately: Bool = true) { self.completeImmediately = completeImmediately }

    /// Finishes immediately, or never does anything if `completeImmediately` is false.
    public init(completeImmediately: Bool = true, outputType: Output.Type, failureType: Failure.Type) {
        self.init(completeImmediately: completeImmediately)
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        subscriber.receive(subscription: Subscriptions.empty)
        if completeImmediately { subscriber.receive(completion: .finished) }
    }
}

/// Fails immediately.
public struct Fail<Output, Failure: Error>: Publisher {
    /// The failure.
    public let error: Failure

    /// Fails immediately for each subscriber.
    public init(error: Failure) { self.error = error }
    /// Fails immediately for each subscriber.
    public init(outputType: Output.Type, failure: Failure) { self.init(error: failure) }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        subscriber.receive(subscription: Subscriptions.empty)
        subscriber.receive(completion: .failure(error))
    }
}

extension Fail: Equatable where Failure: Equatable {}
