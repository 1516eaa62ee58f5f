// Deferred: a publisher that is made anew for each subscriber.

/// Calls a closure for each subscriber, which then subscribes to the publisher that it returns.
public struct Deferred<DeferredPublisher: Publisher>: Publisher {
    public typealias Output = DeferredPublisher.Output
    public typealias Failure = DeferredPublisher.Failure

    /// Makes the publisher; called for each subscriber.
    public let createPublisher: @Sendable () -> DeferredPublisher

    /// Calls `createPublisher` for each subscriber.
    public init(createPublisher: @escaping @Sendable () -> DeferredPublisher) { self.createPublisher = createPublisher }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        createPublisher().subscribe(subscriber)
    }
}
