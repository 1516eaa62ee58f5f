// handleEvents: closures that observe events.

extension Publisher {
    /// Calls closures for events, each before its event is passed on. The stream is not changed.
    public func handleEvents(
        receiveSubscription: (@Sendable (any Subscription) -> Void)? = nil,
        receiveOutput: (@Sendable (Output) -> Void)? = nil,
        receiveCompletion: (@Sendable (Subscribers.Completion<Failure>) -> Void)? = nil,
        receiveCancel: (@Sendable () -> Void)? = nil,
        receiveRequest: (@Sendable (Subscribers.Demand) -> Void)? = nil
    ) -> Publishers.HandleEvents<Self> {
        Publishers.HandleEvents(
            upstream: self, receiveSubscription: receiveSubscription, receiveOutput: receiveOutput,
            receiveCompletion: receiveCompletion, receiveCancel: receiveCancel, receiveRequest: receiveRequest)
    }
}

extension Publishers {
    /// See `Publisher.handleEvents`.
    public struct HandleEvents<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public var receiveSubscription: (@Sendable (any Subscription) -> Void)?
        public var receiveOutput: (@Sendable (Output) -> Void)?
        public var receiveCompletion: (@Sendable (Subscribers.Completion<Failure>) -> Void)?
        public var receiveCancel: (@Sendable () -> Void)?
        public var receiveRequest: (@Sendable (Subscribers.Demand) -> Void)?

        public init(
            upstream: Upstream,
            receiveSubscription: (@Sendable (any Subscription) -> Void)? = nil,
            receiveOutput: (@Sendable (Output) -> Void)? = nil,
            receiveCompletion: (@Sendable (Subscribers.Completion<Failure>) -> Void)? = nil,
            receiveCancel: (@Sendable () -> Void)? = nil,
            receiveRequest: (@Sendable (Subscribers.Demand) -> Void)?
        ) {
            self.upstream = upstream
            self.receiveSubscription = receiveSubscription
            self.receiveOutput = receiveOutput
            self.receiveCompletion = receiveCompletion
            self.receiveCancel = receiveCancel
            self.receiveRequest = receiveRequest
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let events = TapEvents<Output, Failure>(
                subscription: { receiveSubscription?($0) }, output: { receiveOutput?($0) },
                completion: { receiveCompletion?($0) }, cancel: { receiveCancel?() },
                request: { demand, _ in receiveRequest?(demand) })
            upstream.subscribe(Tap(events, name: "HandleEvents", downstream: subscriber))
        }
    }
}
