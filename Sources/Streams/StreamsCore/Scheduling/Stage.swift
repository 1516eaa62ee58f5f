// Stage: what an operator with a clock works on – apart from threads and from the scheduler itself.

/// What an operator does that delivers on a scheduler, or by its clock. Calls come one at a time, under a lock: they
/// change state and put on the stage what is to happen, and call nothing foreign.
protocol TimedBehavior<Input, InputFailure, Output, OutputFailure>: SendableMetatype {
    associatedtype Input
    associatedtype InputFailure: Error
    associatedtype Output
    associatedtype OutputFailure: Error
    /// A moment on the scheduler's clock.
    associatedtype Time: Strideable, Sendable

    /// Whether `stage.now` is read for each event, which has its cost.
    static var readsClock: Bool { get }

    /// The subscriber has its subscription.
    mutating func start(_ stage: inout Stage<Output, OutputFailure, Time>)
    mutating func receive(_ input: Input, _ stage: inout Stage<Output, OutputFailure, Time>)
    mutating func receive(
        completion: Subscribers.Completion<InputFailure>, _ stage: inout Stage<Output, OutputFailure, Time>)
    /// The subscriber asked for `demand` more, which `stage.demand` contains already.
    mutating func request(_ demand: Subscribers.Demand, _ stage: inout Stage<Output, OutputFailure, Time>)
    /// Upstream is asked for values again, after it was held back with none to come.
    mutating func asked(_ stage: inout Stage<Output, OutputFailure, Time>)
    /// The deadline has been reached. There is none any more unless a new one is set.
    mutating func wake(_ stage: inout Stage<Output, OutputFailure, Time>)
}

extension TimedBehavior {
    static var readsClock: Bool { true }
    mutating func start(_ stage: inout Stage<Output, OutputFailure, Time>) {}
    mutating func asked(_ stage: inout Stage<Output, OutputFailure, Time>) {}
    mutating func wake(_ stage: inout Stage<Output, OutputFailure, Time>) {}
}

/// Limits of what waits to be delivered on a scheduler.
enum TimedLimits {
    /// Values that wait or were asked for, of an operator that delivers each.
    static let room = 1024

    static func room<P: Publisher>(_ upstream: P) -> Int { max(upstream.prefetch ?? room, 1) }
}

/// What is to happen, as the behaviour has it.
struct Stage<Output, Failure: Error, Time: Strideable> {
    enum Delivery {
        case value(Output)
        case completion(Subscribers.Completion<Failure>)
        /// A failure that is made when it is delivered, as its maker is not ours.
        case failure(() -> Failure)
    }

    /// The moment at which the behaviour is called. Never before the deadline that it is woken for.
    var now: Time
    /// When the behaviour wants to be woken, if at all.
    var deadline: Time?
    /// What the subscriber asked for and for which nothing was sent yet.
    var demand = Subscribers.Demand.none
    /// What is wanted of upstream.
    var wanted = Subscribers.Demand.none
    /// More is wanted of upstream, which has sent all that it was asked for: the subscriber has to take some first.
    var isHeldBack = false
    /// What is not needed any more, to be let go of outside of the lock.
    var discarded: Output?

    /// Sent, and to be delivered on the scheduler.
    fileprivate(set) var outbox = Queue<Delivery>()
    /// How many of those at the end of the outbox nobody was sent for yet.
    private var unscheduled = 0
    /// The end was sent.
    private(set) var isComplete = false

    init(now: Time) { self.now = now }

    /// Has a value delivered on the scheduler.
    mutating func send(_ value: Output) {
        demand -= 1
        put(.value(value))
    }

    /// Has the end delivered on the scheduler, after all that was sent before.
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

    /// - Returns: how many were sent since this was asked last.
    mutating func takeUnscheduled() -> Int {
        defer { unscheduled = 0 }
        return unscheduled
    }
}
