// Runner: makes a state machine with one subscriber thread-safe. Signals, demand and cancellation may arrive on any
// thread at any time, including during a call of the subscriber. The machine and the subscriber receive them one at a
// time.
//
//     submit, request ─┬─ idle ──→ handle it, then everything that has arrived meanwhile ─→ postponed work
//                      └─ busy ──→ inbox
//
// No lock is held while an event is handled. Demand is sent upstream afterwards, because a publisher may deliver
// everything requested during `request`, and the values would otherwise pile up in the inbox. So the inbox holds no
// more than was requested from upstream. Signals that arrive without demand, such as those of subjects, are limited:
// surplus ones are dropped.

/// Handles a stream's signals without any concern for threads: it is called one call at a time.
protocol StreamMachine {
    /// What the machine receives, from one or more upstreams.
    associatedtype Signal
    associatedtype Output
    associatedtype Failure: Error

    /// Called before `start`. Upstreams that the machine itself subscribes to submit their signals to `inlet`.
    mutating func open(_ inlet: Inlet<Signal, Output, Failure>)
    /// The subscriber has received its subscription.
    mutating func start(_ outlet: Outlet<Output, Failure>)
    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>)
    /// The subscriber requested `demand` more values, already included in `outlet.demand`.
    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>)
    /// The stream has ended or was cancelled: release resources and cancel upstreams that have not ended.
    mutating func stop(_ outlet: Outlet<Output, Failure>)
    /// How to treat a signal if more are waiting than the subscriber requested. `kept` by default.
    static func surplus(_ signal: Signal) -> Surplus
}

/// How to treat a signal that arrives while the subscriber is busy and is not known to have demand for it.
enum Surplus {
    /// Keep it: no more arrive than were requested.
    case kept
    case dropped
    /// Replace the preceding signal if that is of this kind too.
    case latest
}

/// Limits for signals that wait while a subscriber is busy.
enum RunnerLimits {
    /// How many droppable signals may wait beyond the subscriber's demand, because it is not known yet how much the
    /// current call will return.
    static let surplus = 1024
}

extension StreamMachine {
    mutating func open(_ inlet: Inlet<Signal, Output, Failure>) {}
    mutating func start(_ outlet: Outlet<Output, Failure>) {}
    mutating func stop(_ outlet: Outlet<Output, Failure>) {}
    static func surplus(_ signal: Signal) -> Surplus { .kept }
}

class Runner<Machine: StreamMachine, Downstream: Subscriber>: Inlet<Machine.Signal, Machine.Output, Machine.Failure>,
    Subscription, CustomStringConvertible, @unchecked Sendable
where Downstream.Input == Machine.Output, Downstream.Failure == Machine.Failure {
    private enum Event {
        case start
        case signal(Machine.Signal)
        case demand(Subscribers.Demand)
    }

    // Protected by the lock.
    final let lock = Lock()
    private final var inbox = Queue<Event>()
    /// The subscriber's demand at the start of the current event, and what has been requested since.
    private final var known = (before: Subscribers.Demand.none, since: Subscribers.Demand.none)
    /// Whether a thread is delivering. True from the beginning until `begin` has returned.
    private final var isAtWork = true
    /// The upstream of a machine that has only one. Cleared when the stream ends.
    final var upstream: (any Subscription)?
    /// The completion, until it is delivered.
    private final var completion: Subscribers.Completion<Machine.Failure>?

    // Used only by the thread that is handling events.
    private final var machine: Machine?
    private final var downstream: Downstream?

    private final let name: String

    var description: String { name }

    init(_ machine: Machine, name: String, downstream: Downstream) {
        self.machine = machine
        self.downstream = downstream
        self.name = name
    }

    /// Passes the subscription to the subscriber. Nothing else is delivered before it.
    final func begin() {
        handle(.start)
        _ = release(returning: false)
    }

    override final func submit(_ signal: Machine.Signal) { perform(.signal(signal)) }

    /// Like `submit`, for a signal from the only upstream.
    /// - Returns: the demand that upstream should receive in return.
    final func take(_ signal: Machine.Signal) -> Subscribers.Demand {
        guard work(.signal(signal)) else { return .none }
        return release(returning: true)
    }

    final func request(_ demand: Subscribers.Demand) {
        if demand > .none { perform(.demand(demand)) }
    }

    final func cancel() {
        lock.lock()
        guard !isOver else {
            // A thread that is about to deliver the completion must no longer do so.
            let unwanted = completion.take()
            lock.unlock()
            _ = unwanted
            return
        }
        over.store(true, ordering: .relaxed)
        let upstream = self.upstream.take()
        let idle = !isAtWork
        isAtWork = true
        lock.unlock()
        upstream?.cancel()
        if idle { end() }
    }

    // Handling events, one thread at a time.

    private final func perform(_ event: Event) {
        if work(event) { _ = release(returning: false) }
    }

    /// Handles an event if no other thread is handling one; otherwise puts it into the inbox.
    /// - Returns: false if the event was put into the inbox or the stream is over.
    private final func work(_ event: Event) -> Bool {
        lock.lock()
        guard !isOver else {
            lock.unlock()
            return false
        }
        guard !isAtWork else {
            let dropped = keep(event)
            lock.unlock()
            _ = dropped
            return false
        }
        isAtWork = true
        if case .demand(let more) = event { known.before += more }
        lock.unlock()
        handle(event)
        return true
    }

    /// Puts an event into the inbox. Called with the lock held.
    /// - Returns: an event that was dropped, to be released without the lock.
    private final func keep(_ event: Event) -> Event? {
        switch event {
        case .demand(let more):
            known.since += more
            if case .demand(let before) = inbox.last {
                _ = inbox.popLast()
                inbox.append(.demand(before + more))
                return nil
            }
        case .signal(let signal):
            let surplus = Machine.surplus(signal)
            let demand = known.before + known.since
            guard surplus != .kept, inbox.count - RunnerLimits.surplus >= demand.clamped else { break }
            if surplus == .dropped { return event }
            if case .signal(let before) = inbox.last, Machine.surplus(before) == .latest {
                let dropped = inbox.popLast()
                inbox.append(event)
                return dropped
            }
        case .start: break
        }
        inbox.append(event)
        return nil
    }

    /// Handles everything in the inbox, then lets other threads handle events.
    /// - Parameter returning: whether to return the demand for upstream instead of requesting it.
    private final func release(returning: Bool) -> Subscribers.Demand {
        var owed = Subscribers.Demand.none
        while true {
            lock.lock()
            if isOver {
                lock.unlock()
                end()
                return .none
            }
            known.before = demand
            if let event = inbox.popFirst() {
                if case .demand(let more) = event { known = (known.before + more, known.since - more) }
                lock.unlock()
                handle(event)
                continue
            }
            owed += wanted
            wanted = .none
            let work = postponed
            if !work.isEmpty { postponed = [] }
            let owing = self.owing
            if !owing.isEmpty { self.owing = [] }
            isAtWork = false
            let upstream = self.upstream
            lock.unlock()
            for action in work { action() }
            for upstream in owing { upstream.flush() }
            if owed > .none, !returning || !work.isEmpty {
                upstream?.request(owed)
                return .none
            }
            return owed
        }
    }

    private final func handle(_ event: Event) {
        switch event {
        case .start:
            downstream?.receive(subscription: self)
            if !isOver { machine?.open(self) }
            if !isOver { machine?.start(self) }
        case .signal(let signal):
            machine?.receive(signal, self)
        case .demand(let demand):
            self.demand += demand
            machine?.request(demand, self)
        }
        while returned > .none, !isOver {
            let more = returned
            returned = .none
            machine?.request(more, self)
        }
    }

    /// Releases the machine. Called when the stream has ended and no other thread is, or will be, handling events.
    private final func end() {
        machine?.stop(self)
        let downstream = downstream.take()
        machine = nil
        postponed = []
        owing = []
        lock.lock()
        let unread = inbox
        inbox.removeAll()
        let completion = completion.take()
        lock.unlock()
        _ = unread
        if let completion { downstream?.receive(completion: completion) }
    }

    // Called by the machine.

    override final func send(_ value: Machine.Output) {
        guard !isOver, let downstream else { return }
        demand -= 1
        let more = downstream.receive(value)
        if more > .none {
            demand += more
            returned += more
        }
    }

    override final func send(completion: Subscribers.Completion<Machine.Failure>) {
        lock.lock()
        guard !isOver else { return lock.unlock() }
        over.store(true, ordering: .relaxed)
        let upstream = self.upstream.take()
        self.completion = completion
        lock.unlock()
        upstream?.cancel()
    }

    override final func replaceUpstream(with upstream: LinkSubscription) {
        let isWanted = lock.with {
            if !isOver { self.upstream = upstream }
            return !isOver
        }
        guard isWanted else { return upstream.cancel() }
        wanted = .none
        if demand > .none { upstream.request(demand) }
    }

    override final func cancelUpstream() {
        let upstream = lock.with { self.upstream.take() }
        upstream?.cancel()
    }
}
