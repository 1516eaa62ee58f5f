// SubjectCore: the common part of PassthroughSubject and CurrentValueSubject: subscribers, upstreams and completion.

/// What a subject sends to the state machines of its subscribers.
enum SubjectSignal<Output, Failure: Error> {
    /// Values sent concurrently by several threads have the same `order` for all subscribers.
    case value(Output, order: UInt64)
    case completion(Subscribers.Completion<Failure>)
}

final class SubjectCore<Output, Failure: Error>: @unchecked Sendable {
    typealias Branch = Inlet<SubjectSignal<Output, Failure>, Output, Failure>

    private let lock = Lock()
    private var branches: [Branch] = []
    private var completion: Subscribers.Completion<Failure>?
    private var order: UInt64 = 0
    private var current: Output?
    let upstreams = SubjectUpstreams()

    init(current: Output?) {
        self.current = current
        // A subject that keeps its latest value wants values even without subscribers.
        if current != nil { upstreams.want() }
    }

    /// The latest value, if the subject keeps it.
    var latest: Output? { lock.with { current } }

    /// - Parameter keepsAfterEnd: whether to store the value even after the completion.
    func send(_ value: Output, keepsAfterEnd: Bool = false) {
        lock.lock()
        let before = current
        guard completion == nil else {
            if keepsAfterEnd { current = value }
            lock.unlock()
            _ = before
            return
        }
        order += 1
        let order = order
        if before != nil { current = value }
        let branches = branches
        lock.unlock()
        _ = before
        for branch in branches { branch.submit(.value(value, order: order)) }
    }

    func send(completion: Subscribers.Completion<Failure>) {
        lock.lock()
        guard self.completion == nil else { return lock.unlock() }
        self.completion = completion
        let branches = branches
        self.branches = []
        lock.unlock()
        for branch in branches { branch.submit(.completion(completion)) }
    }

    /// Cancels all subscribers without sending them a completion.
    func abandon() {
        let branches = lock.with {
            defer { self.branches = [] }
            return self.branches
        }
        for branch in branches { (branch as? any Subscription)?.cancel() }
    }

    func remove(_ branch: ObjectIdentifier) {
        let removed = lock.with { () -> Branch? in
            branches.firstIndex { ObjectIdentifier($0) == branch }.map { branches.remove(at: $0) }
        }
        _ = removed
    }

    /// Attaches a subscriber through the runner that `make` creates from the latest value and its order.
    func attach<Machine: StreamMachine, Downstream: Subscriber>(
        _ downstream: Downstream, _ make: (_ current: Output?, _ order: UInt64) -> Runner<Machine, Downstream>
    )
    where
        Machine.Signal == SubjectSignal<Output, Failure>, Downstream.Input == Output, Downstream.Failure == Failure,
        Machine.Output == Output, Machine.Failure == Failure
    {
        lock.lock()
        if let completion {
            lock.unlock()
            downstream.receive(subscription: Subscriptions.empty)
            downstream.receive(completion: completion)
            return
        }
        let runner = make(current, order)
        branches.append(runner)
        lock.unlock()
        runner.begin()
    }
}

/// The upstreams of a subject. All upstreams are cancelled when the subject is released.
final class SubjectUpstreams: @unchecked Sendable {
    private let lock = Lock()
    private var upstreams: [any Subscription] = []
    /// Whether a subscriber has requested something. Unlimited demand is then requested from all upstreams.
    private var isWanted = false
    private var isCancelled = false

    deinit { for upstream in upstreams { upstream.cancel() } }

    func add(_ subscription: any Subscription) {
        let (isWanted, isCancelled) = lock.with {
            if !self.isCancelled { upstreams.append(subscription) }
            return (self.isWanted, self.isCancelled)
        }
        if isCancelled { return subscription.cancel() }
        if isWanted { subscription.request(.unlimited) }
    }

    /// Requests values from all upstreams, because a subscriber has requested something.
    func want() {
        let upstreams = lock.with { () -> [any Subscription] in
            guard !isWanted else { return [] }
            isWanted = true
            return self.upstreams
        }
        for upstream in upstreams { upstream.request(.unlimited) }
    }

    /// Cancels all upstreams, and those added later.
    func cancel() {
        let upstreams = lock.with {
            defer { self.upstreams = [] }
            isCancelled = true
            return self.upstreams
        }
        for upstream in upstreams { upstream.cancel() }
    }

    /// Removes an upstream that ended or was cancelled.
    func remove(_ subscription: CombineIdentifier) {
        let removed = lock.with { () -> (any Subscription)? in
            upstreams.firstIndex { $0.combineIdentifier == subscription }.map { upstreams.remove(at: $0) }
        }
        _ = removed
    }
}

/// A subject that releases upstreams that have ended.
protocol FedSubject: AnyObject {
    var upstreams: SubjectUpstreams { get }
}
