// receive(on:): delivers events on a scheduler.

extension Publisher where Output: Sendable {
    /// Delivers values and the completion on `scheduler`. Cancellation is passed upstream directly.
    ///
    /// Demand is passed upstream as long as there is room: at most 1,024 values are requested or wait for the
    /// scheduler; for a broker's topic, as many as its `window`. More are requested as the subscriber takes them, so a
    /// slow subscriber slows upstream down. A subject stores nothing: it loses values beyond that limit, and values
    /// sent before the demand that the subscriber returns from `receive` has reached it. Put a `buffer` before this
    /// operator so that nothing is lost.
    public func receive<S: Scheduler>(
        on scheduler: S, options: S.SchedulerOptions? = nil
    ) -> Publishers.ReceiveOn<Self, S> {
        Publishers.ReceiveOn(upstream: self, scheduler: scheduler, options: options)
    }
}

extension Publishers {
    /// See `Publisher.receive(on:options:)`.
    public struct ReceiveOn<Upstream: Publisher, Context: Scheduler>: Publisher where Upstream.Output: Sendable {
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
            let behavior = ReceiveOnBehavior<Output, Failure, Context.SchedulerTimeType>()
            upstream.subscribe(
                TimedOperator(
                    behavior, name: "ReceiveOn", scheduler: scheduler, options: options,
                    room: TimedLimits.room(upstream), downstream: subscriber))
        }
    }
}

private struct ReceiveOnBehavior<Output, Failure: Error, Time: Strideable>: TimedBehavior {
    static var readsClock: Bool { false }

    mutating func receive(_ input: Output, _ stage: inout Stage<Output, Failure, Time>) { stage.send(input) }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ stage: inout Stage<Output, Failure, Time>) {
        stage.send(completion: completion)
    }

    mutating func request(_ demand: Subscribers.Demand, _ stage: inout Stage<Output, Failure, Time>) {
        stage.wanted += demand
    }
}
