// Empty and Fail: an end, and no value.

/// Publishes no value, and ends at once, or never.
public struct Empty<Output, Failure: Error>: Publisher, Equatable {
    /// Whether it ends at once, or never does anything.
    public let completeImmediately: Bool

    /// Ends at once, or never does anything if `completeImmediately` is false.
    public init(completeImmediately: Bool = true) { self.completeImmediately = completeImmediately }

    /// Ends at once, or never does anything if `completeImmediately` is false.
    public init(completeImmediately: Bool = true, outputType: Output.Type, failureType: Failure.Type) {
        self.init(completeImmediately: completeImmediately)
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        subscriber.receive(subscription: Subscriptions.empty)
        if completeImmediately { subscriber.receive(completion: .finished) }
    }
}

/// Fails at once.
public struct Fail<Output, Failure: Error>: Publisher {
    /// The failure.
    public let error: Failure

    /// Fails each subscriber at once.
    public init(error: Failure) { self.error = error }
    /// Fails each subscriber at once.
    public init(outputType: Output.Type, failure: Failure) { self.init(error: failure) }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        subscriber.receive(subscription: Subscriptions.empty)
        subscriber.receive(completion: .failure(error))
    }
}

extension Fail: Equatable where Failure: Equatable {}
