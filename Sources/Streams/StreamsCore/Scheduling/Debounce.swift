// debounce: delivers a value after a pause.

extension Publisher where Output: Sendable {
    /// Delivers a value on `scheduler` when no other value has arrived within `dueTime` after it; earlier values are
    /// dropped. A value without demand is dropped when it is due. The completion is delivered without delay, and a
    /// value that is not due by then is dropped.
    public func debounce<S: Scheduler>(
        for dueTime: S.SchedulerTimeType.Stride, scheduler: S, options: S.SchedulerOptions? = nil
    ) -> Publishers.Debounce<Self, S> {
        Publishers.Debounce(upstream: self, dueTime: dueTime, scheduler: scheduler, options: options)
    }
}

extension Publishers {
    /// See `Publisher.debounce`.
    public struct Debounce<Upstream: Publisher, Context: Scheduler>: Publisher where Upstream.Output: Sendable {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let dueTime: Context.SchedulerTimeType.Stride
        public let scheduler: Context
        public let options: Context.SchedulerOptions?

        public init(
            upstream: Upstream, dueTime: Context.SchedulerTimeType.Stride, scheduler: Context,
            options: Context.SchedulerOptions?
        ) {
            self.upstream = upstream
            self.dueTime = dueTime
            self.scheduler = scheduler
            self.options = options
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = DebounceBehavior<Output, Failure, Context.SchedulerTimeType>(dueTime: dueTime)
            upstream.subscribe(
                TimedOperator(
                    behavior, name: "Debounce", scheduler: scheduler, options: options, downstream: subscriber))
        }
    }
}

private struct DebounceBehavior<Output, Failure: Error, Time: Strideable>: TimedBehavior {
    private let dueTime: Time.Stride
    private var latest: Output?

    init(dueTime: Time.Stride) { self.dueTime = dueTime }

    mutating func start(_ stage: inout Stage<Output, Failure, Time>) { stage.wanted = .unlimited }

    mutating func receive(_ input: Output, _ stage: inout Stage<Output, Failure, Time>) {
        stage.discarded = latest
        latest = input
        stage.deadline = stage.now.advanced(by: dueTime)
    }

    mutating func wake(_ stage: inout Stage<Output, Failure, Time>) {
        guard let value = latest.take() else { return }
        if stage.demand > .none { stage.send(value) } else { stage.discarded = value }
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ stage: inout Stage<Output, Failure, Time>) {
        stage.discarded = latest.take()
        stage.send(completion: completion)
    }

    mutating func request(_ demand: Subscribers.Demand, _ stage: inout Stage<Output, Failure, Time>) {}
}
