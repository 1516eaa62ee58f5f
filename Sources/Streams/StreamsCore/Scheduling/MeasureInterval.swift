// measureInterval: measures the time between values.

extension Publisher {
    /// Publishes, for each value, the time since the preceding value or since the subscription, measured by the
    /// scheduler's clock. Values are delivered on upstream's thread; the scheduler is used only as a clock.
    public func measureInterval<S: Scheduler>(
        using scheduler: S, options: S.SchedulerOptions? = nil
    ) -> Publishers.MeasureInterval<Self, S> {
        Publishers.MeasureInterval(upstream: self, scheduler: scheduler)
    }
}

extension Publishers {
    /// See `Publisher.measureInterval`.
    public struct MeasureInterval<Upstream: Publisher, Context: Scheduler>: Publisher {
        public typealias Output = Context.SchedulerTimeType.Stride
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let scheduler: Context

        public init(upstream: Upstream, scheduler: Context) {
            self.upstream = upstream
            self.scheduler = scheduler
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = MeasureBehavior<Upstream.Output, Failure, Context>(scheduler: scheduler)
            upstream.subscribe(Operator(behavior, name: "MeasureInterval", downstream: subscriber))
        }
    }
}

private struct MeasureBehavior<Input, Failure: Error, Context: Scheduler>: OperatorBehavior {
    typealias Output = Context.SchedulerTimeType.Stride

    private let scheduler: Context
    private var last: Context.SchedulerTimeType

    init(scheduler: Context) {
        self.scheduler = scheduler
        last = scheduler.now
    }

    mutating func start(_ outlet: Outlet<Output, Failure>) { last = scheduler.now }

    mutating func receive(_ input: Input, _ outlet: Outlet<Output, Failure>) {
        let now = scheduler.now
        let interval = last.distance(to: now)
        last = now
        outlet.send(interval)
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ outlet: Outlet<Output, Failure>) {
        outlet.send(completion: completion)
    }
}
