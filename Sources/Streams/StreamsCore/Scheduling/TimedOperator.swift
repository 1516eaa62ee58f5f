// TimedOperator: thread safety for an operator that delivers on a scheduler.
//
//     upstream, demand ─→ behaviour (under the lock) ─┬─→ outbox ─→ a closure on the scheduler for each delivery
//     alarm, on the scheduler ────────────────────────┘       └──→ if we are on the scheduler already: at once
//
// The kit's `Runner` has whoever is at work do the work of others; here the subscriber is called by closures of the
// scheduler alone, which is what these operators are for. Of those, one at a time delivers, and holds no lock. Each
// closure delivers as much as it was scheduled for, so that a value takes its turn among what others schedule.
//
// An operator that delivers every value has room for so many: what was asked of upstream and has not come, and what
// came and was not taken. Upstream is asked for more when half of the room is free.
//
// One alarm is pending at most, unless an earlier deadline is set: one that goes off before the deadline, as that was
// put off meanwhile, is set again.

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
        /// Deliveries may still be under way.
        case ended
    }

    /// What is to be done after a step of the behaviour, outside of the lock.
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
    /// Nil leaves it to the behaviour what upstream is asked for.
    private let room: Int?
    let description: String

    // Under the lock
    private let lock = Lock()
    private var behavior: Behavior?
    private var stage: Stage
    private var downstream: Downstream?
    private var upstream = Upstream.awaited
    private var alarm: Behavior.Time?
    /// How many deliveries the scheduler has been at.
    private var permits = 0
    private var isDelivering = false
    /// Wanted of upstream, and not asked for; and asked for, and not come.
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

    // From upstream

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

    // From downstream

    func request(_ demand: Subscribers.Demand) {
        guard demand > .none else { return }
        let now = Behavior.readsClock ? scheduler.now : nil
        lock.lock()
        guard var behavior = behavior.take() else { return lock.unlock() }
        if let now { stage.now = now }
        stage.demand += demand
        behavior.request(demand, &stage)
        self.behavior = behavior
        let effects = settle()
        lock.unlock()
        perform(effects)
    }

    func cancel() {
        let held = lock.with { clear() }
        if case .subscribed(let subscription) = held.upstream { subscription.cancel() }
    }

    /// Takes out what is held, to be released outside of the lock. Whatever comes later finds nothing.
    private func clear() -> (upstream: Upstream, downstream: Downstream?, behavior: Behavior?, stage: Stage) {
        let held = (upstream, downstream, behavior, stage)
        upstream = .ended
        downstream = nil
        behavior = nil
        stage = Stage(now: stage.now)
        permits = 0
        return held
    }

    // The behaviour's turn

    /// - Parameters:
    ///   - taking: values that upstream has sent.
    ///   - endingUpstream: it has told its end: it is not to be cancelled or asked any more, nor heard.
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
        let effects = settle()
        lock.unlock()
        _ = ended
        perform(effects)
    }

    /// What has become due by what the behaviour did. Under the lock.
    private func settle() -> Effects {
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

    /// What upstream is asked for now: all that is wanted, if there is room for it; else at least half of the room, so
    /// that it is not asked for each value. Under the lock.
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

    // On the scheduler

    /// - Parameter time: what the alarm was set to. A clock that is behind that is not believed.
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
        let effects = settle()
        lock.unlock()
        perform(effects, onScheduler: true)
    }

    /// Delivers `count` more, in order, unless another closure of the scheduler is at it: then that does.
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
                let effects = settle()
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
