// throttle: at most one value in each interval.

extension Publisher where Output: Sendable {
    /// Delivers at most one value per `interval` on `scheduler`. Of the values that arrive during an interval, the
    /// operator delivers the last if `latest` is true, otherwise the first, and drops the others. Values without demand
    /// are dropped. The completion is delivered after a waiting value.
    public func throttle<S: Scheduler>(
        for interval: S.SchedulerTimeType.Stride, scheduler: S, latest: Bool
    ) -> Publishers.Throttle<Self, S> {
        Publishers.Throttle(upstream: self, interval: interval, scheduler: scheduler, latest: latest)
    }
}

extension Publishers {
    /// See `Publisher.throttle`.
    public struct Throttle<Upstream: Publisher, Context: Scheduler>: Publisher where Upstream.Output: Sendable {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let interval: Context.SchedulerTimeType.Stride
        public let scheduler: Context
        public let latest: Bool

        public init(
            upstream: Upstream, interval: Context.SchedulerTimeType.Stride, scheduler: Context, latest: Bool
        ) {
            self.upstream = upstream
            self.interval = interval
            self.scheduler = scheduler
            self.latest = latest
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = ThrottleBehavior<Output, Failure, Context.SchedulerTimeType>(
                interval: interval, latest: latest)
            upstream.subscribe(
                TimedOperator(behavior, name: "Throttle", scheduler: scheduler, options: nil, downstream: subscriber))
        }
    }
}

private struct ThrottleBehavior<Output, Failure: Error, Time: Strideable>: TimedBehavior {
    private let interval: Time.Stride
    private let latest: Bool
    private var waiting: Output?
    /// When the last value was delivered.
    private var last: Time?
    private var completion: Subscribers.Completion<Failure>?

    init(interval: Time.Stride, latest: Bool) {
        self.interval = interval
        self.latest = latest
    }

    mutating func start(_ stage: inout Stage<Output, Failure, Time>) { stage.wanted = .unlimited }

    mutating func receive(_ input: Output, _ stage: inout Stage<Output, Failure, Time>) {
        guard stage.demand > .none, waiting == nil || latest else {
            stage.discarded = input
            return
        }
        if waiting == nil {
            let earliest = last?.advanced(by: interval) ?? stage.now
            stage.deadline = Swift.max(earliest, stage.now)
        }
        stage.discarded = waiting
        waiting = input
    }

    mutating func wake(_ stage: inout Stage<Output, Failure, Time>) {
        if let value = waiting.take() {
            last = stage.now
            stage.send(value)
        }
        if let completion { stage.send(completion: completion) }
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ stage: inout Stage<Output, Failure, Time>) {
        if waiting == nil { stage.send(completion: completion) } else { self.completion = completion }
    }

    mutating func request(_ demand: Subscribers.Demand, _ stage: inout Stage<Output, Failure, Time>) {}
}
