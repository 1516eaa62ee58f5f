// collect by time: groups values by time intervals.

extension Publisher where Output: Sendable {
    /// Collects values and delivers them as an array on a scheduler after each interval; with `byTimeOrCount`, also
    /// when the count is reached. When upstream finishes, the collected values are delivered before the completion;
    /// when it fails, they are dropped.
    ///
    /// An interval begins at the end of the preceding one, or with a value that arrives after the current one has
    /// ended. So arrays are never empty.
    ///
    /// With `byTimeOrCount`, as many values are requested from upstream as the requested groups can hold, and nothing
    /// is lost. With `byTime`, unlimited values are requested as soon as a group is requested; values that arrive
    /// without demand for a group are dropped.
    public func collect<S: Scheduler>(
        _ strategy: Publishers.TimeGroupingStrategy<S>, options: S.SchedulerOptions? = nil
    ) -> Publishers.CollectByTime<Self, S> {
        Publishers.CollectByTime(upstream: self, strategy: strategy, options: options)
    }
}

extension Publishers {
    /// Determines when a group of values ends.
    public enum TimeGroupingStrategy<Context: Scheduler> {
        /// After an interval.
        case byTime(Context, Context.SchedulerTimeType.Stride)
        /// After an interval, or when the group has the given number of values, at least 1.
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
                precondition(count > 0, "A group must have at least one value.")
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
    /// The maximum size of a group.
    private let limit: Int?
    private var group: [Input] = []
    private var intervalEnd: Time
    /// Whether the group's interval has ended without demand for the group.
    private var isDue = false
    /// Demand that upstream has not satisfied yet; used if there is a limit.
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

    /// Ends the group, which is complete. It may hold more than the limit, because upstream may have been asked for
    /// more values than fit into one group.
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
        // The room in the requested groups, minus the values that are collected or still to arrive.
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
            // The rest waits for demand, and so does the completion.
            if !group.isEmpty { return }
        }
        stage.send(completion: completion)
    }
}
