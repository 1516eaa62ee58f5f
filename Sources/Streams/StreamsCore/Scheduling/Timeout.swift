// timeout: ends the stream if no value arrives for too long.

extension Publisher where Output: Sendable {
    /// Delivers events on `scheduler`. Ends the stream and cancels upstream if no value arrives for `interval` after
    /// the last one; at first, after the subscription or the first demand, whichever is later. More values are
    /// requested from upstream as the subscriber takes them, as by `receive(on:options:)`; while a slow subscriber
    /// prevents this, the timeout is suspended.
    ///
    /// - Parameters:
    ///   - interval: the longest time without a value.
    ///   - scheduler: the scheduler that delivers the events and measures the time.
    ///   - options: options for the scheduler.
    ///   - customError: returns the failure for a timeout; if nil, the stream finishes normally.
    public func timeout<S: Scheduler>(
        _ interval: S.SchedulerTimeType.Stride, scheduler: S, options: S.SchedulerOptions? = nil,
        customError: (@Sendable () -> Failure)? = nil
    ) -> Publishers.Timeout<Self, S> {
        Publishers.Timeout(
            upstream: self, interval: interval, scheduler: scheduler, options: options, customError: customError)
    }
}

extension Publishers {
    /// See `Publisher.timeout`.
    public struct Timeout<Upstream: Publisher, Context: Scheduler>: Publisher where Upstream.Output: Sendable {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let interval: Context.SchedulerTimeType.Stride
        public let scheduler: Context
        public let options: Context.SchedulerOptions?
        public let customError: (@Sendable () -> Failure)?

        public init(
            upstream: Upstream, interval: Context.SchedulerTimeType.Stride, scheduler: Context,
            options: Context.SchedulerOptions?, customError: (@Sendable () -> Failure)?
        ) {
            self.upstream = upstream
            self.interval = interval
            self.scheduler = scheduler
            self.options = options
            self.customError = customError
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = TimeoutBehavior<Output, Failure, Context.SchedulerTimeType>(
                interval: interval, failure: customError)
            upstream.subscribe(
                TimedOperator(
                    behavior, name: "Timeout", scheduler: scheduler, options: options, room: TimedLimits.room(upstream),
                    downstream: subscriber))
        }
    }
}

private struct TimeoutBehavior<Output, Failure: Error, Time: Strideable>: TimedBehavior {
    private let interval: Time.Stride
    private let failure: (@Sendable () -> Failure)?
    private var hasDemand = false

    init(interval: Time.Stride, failure: (@Sendable () -> Failure)?) {
        self.interval = interval
        self.failure = failure
    }

    mutating func start(_ stage: inout Stage<Output, Failure, Time>) {
        if !hasDemand { stage.deadline = stage.now.advanced(by: interval) }
    }

    mutating func request(_ demand: Subscribers.Demand, _ stage: inout Stage<Output, Failure, Time>) {
        if !hasDemand { stage.deadline = stage.now.advanced(by: interval) }
        hasDemand = true
        stage.wanted += demand
    }

    mutating func receive(_ input: Output, _ stage: inout Stage<Output, Failure, Time>) {
        stage.deadline = stage.now.advanced(by: interval)
        stage.send(input)
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ stage: inout Stage<Output, Failure, Time>) {
        stage.send(completion: completion)
    }

    mutating func asked(_ stage: inout Stage<Output, Failure, Time>) {
        stage.deadline = stage.now.advanced(by: interval)
    }

    mutating func wake(_ stage: inout Stage<Output, Failure, Time>) {
        if stage.isHeldBack { return }
        if let failure { stage.send(failure: failure) } else { stage.send(completion: .finished) }
    }
}
