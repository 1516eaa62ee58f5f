// Runner: thread safety for a machine with one subscriber. Whatever happens to it – signals, demand, cancellation –
// may happen on any thread and at any time, also from within the subscriber; the machine and the subscriber see one
// thing after another.
//
//     submit, request ─┬─ nobody is at work ─→ work on it, then on what came meanwhile ─→ what was put off
//                      └─ somebody is ──────→ inbox
//
// Who works holds no lock. Demand goes upstream after the work, as a publisher may deliver all of it from within
// `request`: it would otherwise pile up in the inbox. So the inbox holds no more than upstream was asked for; where
// signals come unasked, as those of subjects do, a limit drops what is beyond demand.

/// What a stream does with its signals, apart from threads: calls come one at a time.
protocol StreamMachine {
    /// What comes in, from one upstream or several.
    associatedtype Signal
    associatedtype Output
    associatedtype Failure: Error

    /// Comes before `start`, and tells where the signals go in of upstreams that the machine itself subscribes to.
    mutating func open(_ inlet: Inlet<Signal, Output, Failure>)
    /// The subscriber has its subscription.
    mutating func start(_ outlet: Outlet<Output, Failure>)
    mutating func receive(_ signal: Signal, _ outlet: Outlet<Output, Failure>)
    /// The subscriber asked for `demand` more, which `outlet.demand` contains already.
    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<Output, Failure>)
    /// The stream has ended or was cancelled: let go of what is held, and cancel what has not ended.
    mutating func stop(_ outlet: Outlet<Output, Failure>)
    /// What becomes of a signal when more wait than the subscriber has asked for. `kept` unless it is written.
    static func surplus(_ signal: Signal) -> Surplus
}

/// What becomes of a signal that comes while the subscriber is busy, and for which it is not known to have demand.
enum Surplus {
    /// There are only as many as were asked for.
    case kept
    case dropped
    /// It takes the place of the one before, if that is of this kind too.
    case latest
}

/// Limits of what waits while a subscriber is busy.
enum RunnerLimits {
    /// Signals that may be dropped, beyond the subscriber's demand: what it returns from the call that it is busy with
    /// is not known yet.
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

    // Under the lock
    final let lock = Lock()
    private final var inbox = Queue<Event>()
    /// The demand that the event that is being worked on began with, and what was asked for since.
    private final var known = (before: Subscribers.Demand.none, since: Subscribers.Demand.none)
    /// From the start, until `begin` is through.
    private final var isAtWork = true
    /// The only upstream, of a machine that has one. Ends with the stream.
    final var upstream: (any Subscription)?
    /// How the stream ended, until it is delivered.
    private final var completion: Subscribers.Completion<Machine.Failure>?

    // For who is at work
    private final var machine: Machine?
    private final var downstream: Downstream?

    private final let name: String

    var description: String { name }

    init(_ machine: Machine, name: String, downstream: Downstream) {
        self.machine = machine
        self.downstream = downstream
        self.name = name
    }

    /// Hands the subscriber its subscription. Nothing else is handed to it before that.
    final func begin() {
        handle(.start)
        _ = release(returning: false)
    }

    override final func submit(_ signal: Machine.Signal) { perform(.signal(signal)) }

    /// As `submit`, for a signal of the only upstream's.
    /// - Returns: what is wanted of it now.
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
            // Whoever is about to deliver the end does not any more.
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

    // The turn of who is at work

    private final func perform(_ event: Event) {
        if work(event) { _ = release(returning: false) }
    }

    /// Works on an event and on all that came meanwhile, or leaves it to who is at work.
    /// - Returns: false if it was left to another, or the stream is over.
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

    /// Leaves an event for who is at work. Under the lock.
    /// - Returns: what is dropped, to be released outside of it.
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

    /// - Parameter returning: what is wanted of upstream is returned, rather than asked for.
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

    /// The stream is over, and nobody else is at work, nor will be.
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

    // What the machine calls

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
