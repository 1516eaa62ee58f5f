// Stage: the state of an operator with a clock, independent of threads and of the scheduler.

/// The behavior of an operator that delivers on a scheduler or according to its clock. Calls come one at a time, under
/// a lock: they update the state and the stage and must not call any outside code.
protocol TimedBehavior<Input, InputFailure, Output, OutputFailure>: SendableMetatype {
    associatedtype Input
    associatedtype InputFailure: Error
    associatedtype Output
    associatedtype OutputFailure: Error
    /// A moment on the scheduler's clock.
    associatedtype Time: Strideable, Sendable

    /// Whether `stage.now` must be updated for each event, which has a cost.
    static var readsClock: Bool { get }

    /// The subscriber has received its subscription.
    mutating func start(_ stage: inout Stage<Output, OutputFailure, Time>)
    mutating func receive(_ input: Input, _ stage: inout Stage<Output, OutputFailure, Time>)
    mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ stage: inout Stage<Output, OutputFailure, Time>)
    /// The subscriber requested `demand` more values, already included in `stage.demand`.
    mutating func request(_ demand: Subscribers.Demand, _ stage: inout Stage<Output, OutputFailure, Time>)
    /// Values were requested from upstream again, after demand was held back while none were due to arrive.
    mutating func asked(_ stage: inout Stage<Output, OutputFailure, Time>)
    /// The deadline has been reached and cleared.
    mutating func wake(_ stage: inout Stage<Output, OutputFailure, Time>)
}

extension TimedBehavior {
    static var readsClock: Bool { true }
    mutating func start(_ stage: inout Stage<Output, OutputFailure, Time>) {}
    mutating func asked(_ stage: inout Stage<Output, OutputFailure, Time>) {}
    mutating func wake(_ stage: inout Stage<Output, OutputFailure, Time>) {}
}

/// Limits for values that wait to be delivered on a scheduler.
enum TimedLimits {
    /// The number of waiting and requested values, for an operator that delivers every value.
    static let room = 1024

    static func room<P: Publisher>(_ upstream: P) -> Int { max(upstream.prefetch ?? room, 1) }
}

/// The actions that a behavior wants.
struct Stage<Output, Failure: Error, Time: Strideable> {
    enum Delivery {
        case value(Output)
        case completion(Subscribers.Completion<Failure>)
        /// A failure that is created when it is delivered, because its closure is outside code.
        case failure(() -> Failure)
    }

    /// The time at which the behavior is called, never earlier than the deadline that wakes it.
    var now: Time
    /// When to wake the behavior, if at all.
    var deadline: Time?
    /// Demand of the subscriber for which nothing has been sent yet.
    var demand = Subscribers.Demand.none
    /// Demand for upstream.
    var wanted = Subscribers.Demand.none
    /// Whether upstream has sent everything that was requested, and there is more demand for it, but the subscriber
    /// must take some values first.
    var isHeldBack = false
    /// A value that is no longer needed, to be released without the lock.
    var discarded: Output?

    /// Events that were sent and await delivery on the scheduler.
    fileprivate(set) var outbox = Queue<Delivery>()
    /// The number of events at the end of the outbox for which no closure has been scheduled yet.
    private var unscheduled = 0
    /// Whether the completion has been sent.
    private(set) var isComplete = false

    init(now: Time) { self.now = now }

    /// Sends a value, to be delivered on the scheduler.
    mutating func send(_ value: Output) {
        demand -= 1
        put(.value(value))
    }

    /// Sends the completion, to be delivered on the scheduler after everything already sent.
    mutating func send(completion: Subscribers.Completion<Failure>) { end(.completion(completion)) }
    mutating func send(failure: @escaping () -> Failure) { end(.failure(failure)) }

    private mutating func end(_ end: Delivery) {
        guard !isComplete else { return }
        put(end)
        isComplete = true
        deadline = nil
    }

    private mutating func put(_ delivery: Delivery) {
        guard !isComplete else { return }
        outbox.append(delivery)
        unscheduled += 1
    }

    mutating func nextDelivery() -> Delivery? { outbox.popFirst() }

    /// - Returns: the number of events sent since the last call.
    mutating func takeUnscheduled() -> Int {
        defer { unscheduled = 0 }
        return unscheduled
    }
}
