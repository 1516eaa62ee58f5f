// handleEvents: closures that are told what passes by.

extension Publisher {
    /// Calls closures as events pass; each is called before the event goes on. Changes nothing.
    public func handleEvents(
        receiveSubscription: ((any Subscription) -> Void)? = nil,
        receiveOutput: ((Output) -> Void)? = nil,
        receiveCompletion: ((Subscribers.Completion<Failure>) -> Void)? = nil,
        receiveCancel: (() -> Void)? = nil,
        receiveRequest: ((Subscribers.Demand) -> Void)? = nil
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
        public var receiveSubscription: ((any Subscription) -> Void)?
        public var receiveOutput: ((Output) -> Void)?
        public var receiveCompletion: ((Subscribers.Completion<Failure>) -> Void)?
        public var receiveCancel: (() -> Void)?
        public var receiveRequest: ((Subscribers.Demand) -> Void)?

        public init(
            upstream: Upstream,
            receiveSubscription: ((any Subscription) -> Void)? = nil,
            receiveOutput: ((Output) -> Void)? = nil,
            receiveCompletion: ((Subscribers.Completion<Failure>) -> Void)? = nil,
            receiveCancel: (() -> Void)? = nil,
            receiveRequest: ((Subscribers.Demand) -> Void)?
        ) {
            self.upstream = upstream
            self.receiveSubscription = receiveSubscription
            self.receiveOutput = receiveOutput
            self.receiveCompletion = receiveCompletion
            self.receiveCancel = receiveCancel
            self.receiveRequest = receiveRequest
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            upstream.subscribe(Inner(self, downstream: subscriber))
        }

        /// Not an operator of the kit: it is to see each call when it is made, on the thread that makes it.
        private final class Inner<Downstream: Subscriber>: Subscriber, Subscription, CustomStringConvertible,
            @unchecked Sendable
        where Downstream.Input == Output, Downstream.Failure == Failure {
            private let lock = Lock()
            private let events: HandleEvents
            private var downstream: Downstream?
            private var upstream: (any Subscription)?

            init(_ events: HandleEvents, downstream: Downstream) {
                self.events = events
                self.downstream = downstream
            }

            func receive(subscription: any Subscription) {
                events.receiveSubscription?(subscription)
                let isFirst = lock.with {
                    guard upstream == nil, downstream != nil else { return false }
                    upstream = subscription
                    return true
                }
                if isFirst { downstream?.receive(subscription: self) } else { subscription.cancel() }
            }

            func receive(_ input: Output) -> Subscribers.Demand {
                guard let downstream = lock.with({ upstream == nil ? nil : downstream }) else { return .none }
                events.receiveOutput?(input)
                let more = downstream.receive(input)
                if more > .none { events.receiveRequest?(more) }
                return more
            }

            func receive(completion: Subscribers.Completion<Failure>) {
                guard let downstream = end().downstream else { return }
                events.receiveCompletion?(completion)
                downstream.receive(completion: completion)
            }

            func request(_ demand: Subscribers.Demand) {
                guard let upstream = lock.with({ upstream }) else { return }
                events.receiveRequest?(demand)
                upstream.request(demand)
            }

            func cancel() {
                let (upstream, downstream) = end()
                guard downstream != nil else { return }
                events.receiveCancel?()
                upstream?.cancel()
            }

            /// Lets go of both; the caller releases them, outside of the lock.
            private func end() -> (upstream: (any Subscription)?, downstream: Downstream?) {
                lock.with { (upstream.take(), downstream.take()) }
            }

            var description: String { "HandleEvents" }
        }
    }
}
