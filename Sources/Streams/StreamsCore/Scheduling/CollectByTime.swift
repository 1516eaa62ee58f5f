// collect by time: values are put together in groups, each of which ends with an interval of time.

extension Publisher where Output: Sendable {
    /// Collects values, and delivers them on a scheduler as an array when an interval has passed; with
    /// `byTimeOrCount` also when there are so many. When upstream finishes, what has been collected comes before the
    /// end; when it fails, the failure comes alone.
    ///
    /// An interval begins where the one before ended, or with a value that comes later than it would have ended: an
    /// array is never empty.
    ///
    /// With `byTimeOrCount`, upstream is asked for as many values as the groups asked for can hold, and nothing is
    /// lost. With `byTime` it is asked for all it has as soon as a group is asked for; what comes while no group is
    /// asked for is dropped.
    public func collect<S: Scheduler>(
        _ strategy: Publishers.TimeGroupingStrategy<S>, options: S.SchedulerOptions? = nil
    ) -> Publishers.CollectByTime<Self, S> {
        Publishers.CollectByTime(upstream: self, strategy: strategy, options: options)
    }
}

extension Publishers {
    /// What ends a group of values.
    public enum TimeGroupingStrategy<Context: Scheduler> {
        /// That an interval has passed.
        case byTime(Context, Context.SchedulerTimeType.Stride)
        /// That an interval has passed, or that there are so many; at least 1.
        case byTimeOrCount(Context, Context.SchedulerTimeType.Stride, Int)
    }

    /// See `Publisher.collect(_:options:)`.
    public struct CollectByTime<Upstream: Publisher, Context: Scheduler>: Publisher where Upstream.Output: Sendable {
        public typealias Output = [Upstream.Output]
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let strategy: TimeGroupingStrategy<Context>
        public let options: Context.SchedulerOptions?

        public init(
            upstream: Upstream, strategy: TimeGroupingStrategy<Context>, options: Context.SchedulerOptions?
        ) {
            self.upstream = upstream
            self.strategy = strategy
            self.options = options
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let context: Context
            let interval: Context.SchedulerTimeType.Stride
            var limit: Int?
            switch strategy {
            case .byTime(let scheduler, let stride): (context, interval) = (scheduler, stride)
            case .byTimeOrCount(let scheduler, let stride, let count):
                precondition(count > 0, "A group has at least one value.")
                (context, interval, limit) = (scheduler, stride, count)
            }
            let behavior = CollectByTimeBehavior<Upstream.Output, Failure, Context.SchedulerTimeType>(
                interval: interval, limit: limit, now: context.now)
            upstream.subscribe(
                TimedOperator(
                    behavior, name: "CollectByTime", scheduler: context, options: options, downstream: subscriber))
        }
    }
}

private struct CollectByTimeBehavior<Input, Failure: Error, Time: Strideable>: TimedBehavior {
    typealias Output = [Input]

    private let interval: Time.Stride
    /// Of one group.
    private let limit: Int?
    private var group: [Input] = []
    private var intervalEnd: Time
    /// The interval of the group has ended, but nobody has asked for it.
    private var isDue = false
    /// What upstream was asked for and has not delivered, where there is a limit.
    private var outstanding = Subscribers.Demand.none
    private var isFinished = false

    init(interval: Time.Stride, limit: Int?, now: Time) {
        self.interval = interval
        self.limit = limit
        intervalEnd = now.advanced(by: interval)
    }

    mutating func start(_ stage: inout Stage<[Input], Failure, Time>) {
        intervalEnd = stage.now.advanced(by: interval)
    }

    mutating func receive(_ input: Input, _ stage: inout Stage<[Input], Failure, Time>) {
        if limit == nil, stage.demand == .none {
            stage.discarded = [input]
            return
        }
        outstanding -= 1
        if group.isEmpty, !isDue {
            if intervalEnd <= stage.now { intervalEnd = stage.now.advanced(by: interval) }
            stage.deadline = intervalEnd
        }
        group.append(input)
        if group.count == limit { flush(&stage) }
    }

    mutating func wake(_ stage: inout Stage<[Input], Failure, Time>) { flush(&stage) }

    /// The group is complete, or more than that: upstream may have been asked for more than one group could hold.
    private mutating func flush(_ stage: inout Stage<[Input], Failure, Time>) {
        intervalEnd = stage.now.advanced(by: interval)
        stage.deadline = nil
        isDue = false
        let limit = limit ?? .max
        repeat {
            guard stage.demand > .none else {
                isDue = true
                return
            }
            let complete = group.count <= limit ? group : Array(group.prefix(limit))
            group.removeFirst(complete.count)
            stage.send(complete)
        } while group.count >= limit || isFinished && !group.isEmpty
        if !group.isEmpty { stage.deadline = intervalEnd }
    }

    mutating func request(_ demand: Subscribers.Demand, _ stage: inout Stage<[Input], Failure, Time>) {
        if isDue { flush(&stage) }
        if isFinished {
            if group.isEmpty { stage.send(completion: .finished) }
            return
        }
        guard let limit else {
            stage.wanted = .unlimited
            return
        }
        // As much as the groups asked for can hold beside what they have, or are going to get.
        let room = stage.demand * limit - group.count
        if room > outstanding {
            stage.wanted += room == .unlimited ? .unlimited : room - outstanding
            outstanding = room
        }
    }

    mutating func receive(
        completion: Subscribers.Completion<Failure>, _ stage: inout Stage<[Input], Failure, Time>
    ) {
        if case .finished = completion, !group.isEmpty {
            isFinished = true
            flush(&stage)
            // The rest waits for demand, and the end behind it.
            if !group.isEmpty { return }
        }
        stage.send(completion: completion)
    }
}
