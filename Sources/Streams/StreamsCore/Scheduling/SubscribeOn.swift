// subscribe(on:): sends subscription, demand and cancellation upstream on a scheduler.

extension Publisher where Output: Sendable {
    /// Subscribes, requests values and cancels on `scheduler`. Values and the completion are delivered on upstream's
    /// thread.
    ///
    /// Demand takes effect only when the scheduler has run the request. A subject that stores nothing loses values that
    /// are sent earlier.
    public func subscribe<S: Scheduler>(
        on scheduler: S, options: S.SchedulerOptions? = nil
    ) -> Publishers.SubscribeOn<Self, S> {
        Publishers.SubscribeOn(upstream: self, scheduler: scheduler, options: options)
    }
}

extension Publishers {
    /// See `Publisher.subscribe(on:options:)`.
    public struct SubscribeOn<Upstream: Publisher, Context: Scheduler>: Publisher where Upstream.Output: Sendable {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let scheduler: Context
        public let options: Context.SchedulerOptions?

        public init(upstream: Upstream, scheduler: Context, options: Context.SchedulerOptions?) {
            self.upstream = upstream
            self.scheduler = scheduler
            self.options = options
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let inner = Inner(self, downstream: subscriber)
            let upstream = Unchecked(upstream)
            scheduler.schedule(options: options) { upstream.value.subscribe(inner) }
        }

        private final class Inner<Downstream: Subscriber>: Subscriber, Subscription, CustomStringConvertible,
            @unchecked Sendable
        where Downstream.Input == Output, Downstream.Failure == Failure {
            private let scheduler: Context
            private let options: Context.SchedulerOptions?

            // Protected by the lock.
            private let lock = Lock()
            private var downstream: Downstream?
            private var upstream: (any Subscription)?

            init(_ publisher: SubscribeOn, downstream: Downstream) {
                scheduler = publisher.scheduler
                options = publisher.options
                self.downstream = downstream
            }

            func receive(subscription: any Subscription) {
                let downstream = lock.with { () -> Downstream? in
                    guard upstream == nil, let downstream = self.downstream else { return nil }
                    upstream = subscription
                    return downstream
                }
                if let downstream { downstream.receive(subscription: self) } else { subscription.cancel() }
            }

            func receive(_ input: Output) -> Subscribers.Demand {
                lock.with { upstream == nil ? nil : downstream }?.receive(input) ?? .none
            }

            func receive(completion: Subscribers.Completion<Failure>) {
                let held = end()
                if held.upstream != nil { held.downstream?.receive(completion: completion) }
            }

            func request(_ demand: Subscribers.Demand) {
                guard demand > .none else { return }
                // The scheduled closure checks whether there still is an upstream.
                scheduler.schedule(options: options) { self.lock.with { self.upstream }?.request(demand) }
            }

            func cancel() {
                guard let upstream = end().upstream else { return }
                scheduler.schedule(options: options) { upstream.cancel() }
            }

            private func end() -> (upstream: (any Subscription)?, downstream: Downstream?) {
                lock.with {
                    defer { (upstream, downstream) = (nil, nil) }
                    return (upstream, downstream)
                }
            }

            var description: String { "SubscribeOn" }
        }
    }
}
