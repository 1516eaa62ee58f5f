// AnyPublisher and AnySubscriber: type-erased publishers and subscribers.

/// A type-erased publisher.
@frozen public struct AnyPublisher<Output, Failure: Error>: Publisher, CustomStringConvertible {
    @usableFromInline let base: any Publisher<Output, Failure>

    /// A publisher that is already erased is not wrapped again.
    public init<P: Publisher>(_ publisher: P) where P.Output == Output, P.Failure == Failure {
        base = (publisher as? AnyPublisher<Output, Failure>)?.base ?? publisher
    }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        base.receive(subscriber: subscriber)
    }

    public var description: String { "AnyPublisher" }
}

/// A type-erased subscriber, or one made of closures.
@frozen public struct AnySubscriber<Input, Failure: Error>: Subscriber, CustomStringConvertible {
    private let receiveSubscription: @Sendable (any Subscription) -> Void
    private let receiveValue: @Sendable (Input) -> Subscribers.Demand
    private let receiveCompletion: @Sendable (Subscribers.Completion<Failure>) -> Void
    /// The identifier of the wrapped subscriber, if there is one.
    public let combineIdentifier: CombineIdentifier
    public let description: String

    public init<S: Subscriber>(_ subscriber: S) where S.Input == Input, S.Failure == Failure {
        receiveSubscription = { subscriber.receive(subscription: $0) }
        receiveValue = { subscriber.receive($0) }
        receiveCompletion = { subscriber.receive(completion: $0) }
        combineIdentifier = subscriber.combineIdentifier
        description = (subscriber as? any CustomStringConvertible)?.description ?? "AnySubscriber"
    }

    /// Forwards all events to a subject, including the subscription.
    public init<S: Subject>(_ subject: S) where S.Output == Input, S.Failure == Failure {
        self.init(SubjectSubscriber(subject))
    }

    /// An omitted closure does nothing. Without `receiveValue`, no more values are requested.
    public init(
        receiveSubscription: (@Sendable (any Subscription) -> Void)? = nil,
        receiveValue: (@Sendable (Input) -> Subscribers.Demand)? = nil,
        receiveCompletion: (@Sendable (Subscribers.Completion<Failure>) -> Void)? = nil
    ) {
        self.receiveSubscription = receiveSubscription ?? { _ in }
        self.receiveValue = receiveValue ?? { _ in .none }
        self.receiveCompletion = receiveCompletion ?? { _ in }
        combineIdentifier = CombineIdentifier()
        description = "Anonymous AnySubscriber"
    }

    public func receive(subscription: any Subscription) { receiveSubscription(subscription) }
    public func receive(_ value: Input) -> Subscribers.Demand { receiveValue(value) }
    public func receive(completion: Subscribers.Completion<Failure>) { receiveCompletion(completion) }
}
