// delay: delivers events after a delay.

extension Publisher where Output: Sendable {
    /// Delivers values and the completion on `scheduler`, `interval` after their arrival. More values are requested
    /// from upstream only while fewer than 1,024 are overdue because of a slow subscriber.
    ///
    /// - Parameters:
    ///   - interval: the length of the delay.
    ///   - tolerance: how much later the scheduler may deliver; by default, its minimum tolerance.
    ///   - scheduler: the scheduler that delivers the events.
    ///   - options: options for the scheduler.
    public func delay<S: Scheduler>(
        for interval: S.SchedulerTimeType.Stride, tolerance: S.SchedulerTimeType.Stride? = nil, scheduler: S,
        options: S.SchedulerOptions? = nil
    ) -> Publishers.Delay<Self, S> {
        Publishers.Delay(
            upstream: self, interval: interval, tolerance: tolerance ?? scheduler.minimumTolerance,
            scheduler: scheduler, options: options)
    }
}

extension Publishers {
    /// See `Publisher.delay`.
    public struct Delay<Upstream: Publisher, Context: Scheduler>: Publisher where Upstream.Output: Sendable {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let interval: Context.SchedulerTimeType.Stride
        public let tolerance: Context.SchedulerTimeType.Stride
        public let scheduler: Context
        public let options: Context.SchedulerOptions?

        public init(
            upstream: Upstream, interval: Context.SchedulerTimeType.Stride,
            tolerance: Context.SchedulerTimeType.Stride, scheduler: Context, options: Context.SchedulerOptions? = nil
        ) {
            self.upstream = upstream
            self.interval = interval
            self.tolerance = tolerance
            self.scheduler = scheduler
            self.options = options
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let behavior = DelayBehavior<Output, Failure, Context.SchedulerTimeType>(interval: interval)
            upstream.subscribe(
                TimedOperator(
                    behavior, name: "Delay", scheduler: scheduler, options: options, tolerance: tolerance,
                    room: TimedLimits.room(upstream), downstream: subscriber))
        }
    }
}

private struct DelayBehavior<Output, Failure: Error, Time: Strideable>: TimedBehavior {
    private enum Event {
        case value(Output)
        case completion(Subscribers.Completion<Failure>)
    }

    private let interval: Time.Stride
    /// The events that arrive during an interval.
    private var waiting = Queue<(due: Time, event: Event)>()

    init(interval: Time.Stride) { self.interval = interval }

    mutating func receive(_ input: Output, _ stage: inout Stage<Output, Failure, Time>) {
        wait(.value(input), &stage)
    }

    mutating func receive(completion: Subscribers.Completion<Failure>, _ stage: inout Stage<Output, Failure, Time>) {
        wait(.completion(completion), &stage)
    }

    private mutating func wait(_ event: Event, _ stage: inout Stage<Output, Failure, Time>) {
        let due = stage.now.advanced(by: interval)
        // A clock that was set back must not change the order.
        waiting.append((Swift.max(due, waiting.last?.due ?? due), event))
        // Events that are overdue because the scheduler is busy count as waiting for the subscriber.
        send(&stage) { $0 < $1 }
    }

    mutating func wake(_ stage: inout Stage<Output, Failure, Time>) { send(&stage) { $0 <= $1 } }

    private mutating func send(_ stage: inout Stage<Output, Failure, Time>, _ isDue: (Time, Time) -> Bool) {
        while !waiting.isEmpty, isDue(waiting[0].due, stage.now), let (_, event) = waiting.popFirst() {
            switch event {
            case .value(let value): stage.send(value)
            case .completion(let completion): stage.send(completion: completion)
            }
        }
        stage.deadline = waiting.isEmpty ? nil : waiting[0].due
    }

    mutating func request(_ demand: Subscribers.Demand, _ stage: inout Stage<Output, Failure, Time>) {
        stage.wanted += demand
    }
}
