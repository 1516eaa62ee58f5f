// receive(on:): events are delivered on a scheduler.

extension Publisher where Output: Sendable {
    /// Delivers values and the end on `scheduler`. Cancellation goes upstream directly.
    ///
    /// Demand goes upstream as far as there is room: at most 1,024 values wait for the scheduler or are asked for, of
    /// a topic of a broker as many as its `window`. Upstream is asked for more as the subscriber takes them, so a slow
    /// one slows upstream down. A subject keeps nothing and loses what is beyond that, and what it is sent before a
    /// demand that the subscriber returns from `receive` has reached it: `buffer` in front of this loses nothing.
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
