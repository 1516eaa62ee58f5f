// Publisher: delivers values over time to subscribers that request them.

/// Delivers a sequence of values over time to each of its subscribers, never more than that subscriber requested.
///
/// The order of events is always the same: `receive(subscription:)` once; then values, never more than were requested;
/// then at most one completion, and nothing after it. A completion needs no demand (Reactive Streams §1.1, §1.5, §1.7,
/// §1.9).
public protocol Publisher<Output, Failure>: SendableMetatype {
    /// The type of the published values.
    associatedtype Output
    /// The type of failure; `Never` if the stream cannot fail.
    associatedtype Failure: Error

    /// Attaches a subscriber. Only `subscribe(_:)` calls this.
    func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure
}

extension Publisher {
    /// Attaches a subscriber, which receives a subscription for requesting values.
    public func subscribe<S: Subscriber>(_ subscriber: S) where S.Input == Output, S.Failure == Failure {
        receive(subscriber: subscriber)
    }

    /// Attaches a subject, which forwards every value to its own subscribers.
    /// - Returns: a cancellable that detaches the subject when it is cancelled or released.
    public func subscribe<S: Subject>(_ subject: S) -> AnyCancellable where S.Output == Output, S.Failure == Failure {
        let subscriber = SubjectSubscriber(subject)
        subscribe(subscriber)
        return AnyCancellable(subscriber)
    }

    /// Hides the concrete type of this publisher.
    public func eraseToAnyPublisher() -> AnyPublisher<Output, Failure> { AnyPublisher(self) }
}

/// A publisher that delivers nothing until it is connected.
public protocol ConnectablePublisher<Output, Failure>: Publisher {
    /// Starts delivering to the current subscribers.
    /// - Returns: a cancellable that disconnects when it is cancelled. An `AnyCancellable` also disconnects when it is
    ///   released.
    func connect() -> any Cancellable
}

/// The publishers that operators return.
public enum Publishers {}

/// Ready-made subscribers, and the types used in subscribing.
public enum Subscribers {}

/// Ready-made subscriptions.
public enum Subscriptions {}
