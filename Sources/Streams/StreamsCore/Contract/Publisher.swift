// Publisher: what can deliver values over time, to subscribers that ask for them.

/// Delivers a sequence of values over time to each of its subscribers, at most as many as that subscriber asked for.
///
/// The order of events is always the same: `receive(subscription:)` once; after demand was requested, values, never
/// more than the demand; at most one completion, and nothing after it. A completion needs no demand (Reactive Streams
/// §1.1, §1.5, §1.7, §1.9).
public protocol Publisher<Output, Failure>: SendableMetatype {
    /// The kind of value published.
    associatedtype Output
    /// How the stream may fail; `Never` if it cannot.
    associatedtype Failure: Error

    /// Attaches a subscriber. Called by `subscribe(_:)`; not to be called by others.
    func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure
}

extension Publisher {
    /// Attaches a subscriber: it gets a subscription, which it asks for values.
    public func subscribe<S: Subscriber>(_ subscriber: S) where S.Input == Output, S.Failure == Failure {
        receive(subscriber: subscriber)
    }

    /// Attaches a subject, which takes every value and passes it to its own subscribers.
    /// - Returns: what ends the attachment when it is cancelled or let go.
    public func subscribe<S: Subject>(_ subject: S) -> AnyCancellable where S.Output == Output, S.Failure == Failure {
        let subscriber = SubjectSubscriber(subject)
        subscribe(subscriber)
        return AnyCancellable(subscriber)
    }

    /// Hides what kind of publisher this is.
    public func eraseToAnyPublisher() -> AnyPublisher<Output, Failure> { AnyPublisher(self) }
}

/// A publisher that delivers nothing until it is connected.
public protocol ConnectablePublisher<Output, Failure>: Publisher {
    /// Begins to deliver to those that have subscribed.
    /// - Returns: what disconnects when it is cancelled. Letting go of it disconnects too if it is an `AnyCancellable`.
    func connect() -> any Cancellable
}

/// The publishers that operators make.
public enum Publishers {}

/// Subscribers that are ready to use, and what subscribing is described with.
public enum Subscribers {}

/// Subscriptions that are ready to use.
public enum Subscriptions {}
