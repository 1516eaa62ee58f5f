// TimedOperator: thread safety for an operator that delivers on a scheduler.
//
//     upstream, demand ─→ behavior (under the lock) ─┬─→ outbox ─→ a closure on the scheduler for each delivery
//     alarm, on the scheduler ───────────────────────┘       └──→ if already on the scheduler: immediately
//
// In the kit's `Runner`, the thread that is busy also handles events from other threads. Here, only closures on the
// scheduler call the subscriber, because that is the purpose of these operators. One closure delivers at a time,
// without holding the lock. Each closure delivers only what it was scheduled for, so that deliveries take their turn
// among other scheduled work.
//
// An operator that delivers every value has limited room for values that were requested from upstream and have not
// arrived, and for values that have arrived and were not taken. More are requested when half of the room is free.
//
// At most one alarm is pending, unless an earlier deadline is set. If the deadline was postponed, the alarm goes off
// too early and is set again.

final class TimedOperator<Behavior: TimedBehavior, Context: Scheduler, Downstream: Subscriber>: Subscriber,
    Subscription, CustomStringConvertible, @unchecked Sendable
where
    Behavior.Time == Context.SchedulerTimeType, Downstream.Input == Behavior.Output,
    Downstream.Failure == Behavior.OutputFailure
{
    typealias Stage = StreamsCore.Stage<Behavior.Output, Behavior.OutputFailure, Behavior.Time>

    private enum Upstream {
        case awaited
        case subscribed(any Subscription)
        /// Deliveries may still be in progress.
        case ended
    }

    /// What to do after a step of the behavior, without the lock.
    private struct Effects {
        var deliveries = 0
        var alarm: Behavior.Time?
        var isDue = false
        var demand = Subscribers.Demand.none
        var upstream: (any Subscription)?
        var isComplete = false
        var discarded: Behavior.Output?
    }

    private let scheduler: Context
    private let options: Context.SchedulerOptions?
    private let tolerance: Behavior.Time.Stride
    /// The limit for requested and waiting values; nil if the behavior controls the demand itself.
    private let room: Int?
    let description: String

    // Protected by the lock.
    private let lock = Lock()
    private var behavior: Behavior?
    private var stage: Stage
    private var downstream: Downstream?
    private var upstream = Upstream.awaited
    private var alarm: Behavior.Time?
    /// The number of deliveries that closures on the scheduler may make.
    private var permits = 0
    private var isDelivering = false
    /// `owed` is demand not requested from upstream yet; `asked` was requested and has not arrived yet.
    private var owed = Subscribers.Demand.none
    private var asked = 0

    init(
        _ behavior: Behavior, name: String, scheduler: Context, options: Context.SchedulerOptions?,
        tolerance: Behavior.Time.Stride? = nil, room: Int? = nil, downstream: Downstream
    ) {
        self.behavior = behavior
        self.scheduler = scheduler
        self.options = options
        self.tolerance = tolerance ?? scheduler.minimumTolerance
        self.room = room
        self.downstream = downstream
        stage = Stage(now: scheduler.now)
        description = name
    }

    // Called by upstream.

    func receive(subscription: any Subscription) {
        let downstream = lock.with { () -> Downstream? in
            guard case .awaited = upstream, let downstream = self.downstream else { return nil }
            upstream = .subscribed(subscription)
            // Nothing is delivered before the subscriber has its subscription.
            isDelivering = true
            return downstream
        }
        guard let downstream else { return subscription.cancel() }
        downstream.receive(subscription: self)
        step { $0.start(&$1) }
        let isDue = lock.with {
            isDelivering = false
            return permits > 0
        }
        if isDue { scheduler.schedule(options: options) { self.deliver(0) } }
    }

    func receive(_ input: Behavior.Input) -> Subscribers.Demand {
        step(taking: 1) { $0.receive(input, &$1) }
        return .none
    }

    func receive(completion: Subscribers.Completion<Behavior.InputFailure>) {
        step(endingUpstream: true) { $0.receive(completion: completion, &$1) }
    }

    // Called by downstream.

    func request(_ demand: Subscribers.Demand) {
        guard demand > .none else { return }
        let now = Behavior.readsClock ? scheduler.now : nil
        lock.lock()
        guard var behavior = behavior.take() else { return lock.unlock() }
        if let now { stage.now = now }
        stage.demand += demand
        behavior.request(demand, &stage)
        self.behavior = behavior
        let effects = resolve()
        lock.unlock()
        perform(effects)
    }

    func cancel() {
        let held = lock.with { clear() }
        if case .subscribed(let subscription) = held.upstream { subscription.cancel() }
    }

    /// Clears the state. The caller releases the returned values outside of the lock.
    private func clear() -> (upstream: Upstream, downstream: Downstream?, behavior: Behavior?, stage: Stage) {
        let held = (upstream, downstream, behavior, stage)
        upstream = .ended
        downstream = nil
        behavior = nil
        stage = Stage(now: stage.now)
        permits = 0
        return held
    }

    // Calling the behavior.

    /// - Parameters:
    ///   - taking: the number of values that upstream has sent.
    ///   - endingUpstream: upstream has completed. From now on it is neither cancelled nor asked for more, and its
    ///     events are ignored.
    private func step(
        taking: Int = 0, endingUpstream: Bool = false, _ body: (inout Behavior, inout Stage) -> Void
    ) {
        let now = Behavior.readsClock ? scheduler.now : nil
        lock.lock()
        guard case .subscribed(let ended) = upstream, var behavior = behavior.take() else { return lock.unlock() }
        if let now { stage.now = now }
        if endingUpstream { upstream = .ended }
        asked = max(asked - taking, 0)
        body(&behavior, &stage)
        self.behavior = behavior
        let effects = resolve()
        lock.unlock()
        _ = ended
        perform(effects)
    }

    /// Collects the effects of a step of the behavior. Called with the lock held.
    private func resolve() -> Effects {
        var effects = Effects()
        effects.deliveries = stage.takeUnscheduled()
        effects.discarded = stage.discarded.take()
        effects.isComplete = stage.isComplete
        if case .subscribed(let subscription) = upstream {
            if stage.isComplete {
                upstream = .ended
                effects.upstream = subscription
            } else {
                owed += stage.wanted
                effects.demand = ask()
                if effects.demand > .none { effects.upstream = subscription }
            }
        }
        stage.wanted = .none
        if let deadline = stage.deadline, alarm.map({ deadline < $0 }) ?? true {
            alarm = deadline
            effects.alarm = deadline
            effects.isDue = deadline <= stage.now
        }
        return effects
    }

    /// Returns the demand to request from upstream now: all that is owed if there is room for it, otherwise at least
    /// half of the room, so that values are not requested one by one. Called with the lock held.
    private func ask() -> Subscribers.Demand {
        guard let room else {
            defer { owed = .none }
            return owed
        }
        guard owed > .none else { return .none }
        let free = max(room - asked - stage.outbox.count, 0)
        let n = min(owed.clamped, free)
        guard owed <= .max(free) || n >= (room + 1) / 2 else {
            stage.isHeldBack = asked == 0
            return .none
        }
        owed -= .max(n)
        asked += n
        if stage.isHeldBack {
            stage.isHeldBack = false
            behavior?.asked(&stage)
        }
        return .max(n)
    }

    private func perform(_ effects: Effects, onScheduler: Bool = false) {
        if let alarm = effects.alarm {
            if effects.isDue {
                scheduler.schedule(options: options) { self.ring(alarm) }
            } else {
                scheduler.schedule(after: alarm, tolerance: tolerance, options: options) { self.ring(alarm) }
            }
        }
        if onScheduler {
            deliver(effects.deliveries)
        } else {
            for _ in 0..<effects.deliveries { scheduler.schedule(options: options) { self.deliver(1) } }
        }
        guard let upstream = effects.upstream else { return }
        if effects.isComplete { upstream.cancel() } else { upstream.request(effects.demand) }
    }

    // Called on the scheduler.

    /// - Parameter time: the time for which the alarm was set. If the clock reads less, this time is used instead.
    private func ring(_ time: Behavior.Time) {
        let now = scheduler.now
        lock.lock()
        if alarm == time { alarm = nil }
        guard var behavior = behavior.take() else { return lock.unlock() }
        stage.now = now < time ? time : now
        if let deadline = stage.deadline, deadline <= stage.now {
            stage.deadline = nil
            behavior.wake(&stage)
        }
        self.behavior = behavior
        let effects = resolve()
        lock.unlock()
        perform(effects, onScheduler: true)
    }

    /// Delivers `count` more events in order. If another closure on the scheduler is delivering, that one delivers
    /// them.
    private func deliver(_ count: Int) {
        lock.lock()
        permits += count
        guard !isDelivering else { return lock.unlock() }
        isDelivering = true
        while permits > 0, let downstream, let delivery = stage.nextDelivery() {
            permits -= 1
            if case .value(let value) = delivery {
                lock.unlock()
                let more = downstream.receive(value)
                if more > .none { request(more) }
                let now = room != nil && Behavior.readsClock ? scheduler.now : nil
                lock.lock()
                if let now { stage.now = now }
                let effects = resolve()
                guard effects.upstream != nil || effects.alarm != nil else { continue }
                lock.unlock()
                perform(effects)
                lock.lock()
                continue
            }
            let held = clear()
            lock.unlock()
            switch delivery {
            case .completion(let completion): held.downstream?.receive(completion: completion)
            case .failure(let make): held.downstream?.receive(completion: .failure(make()))
            case .value: break
            }
            lock.lock()
        }
        isDelivering = false
        lock.unlock()
    }
}
