// MergeInput: merges any number of publishers, which can be added at any time.

/// Merges publishers that cannot fail, which can be added at any time. A `MergeInput` never completes, even if the
/// merged publishers do.
///
/// Each subscriber has its own demand, which counts for all publishers. Values for which it has no demand wait, up to
/// `buffer` values of each publisher. When it requests more, publishers with waiting values take turns, one value each,
/// so none can starve the others. The values of one publisher keep their order.
///
/// As much is requested from each publisher as the slowest subscriber has room for, so no value is lost, and a
/// subscriber without demand holds the publishers back once its buffers are full. A subscriber receives the values that
/// arrive while it is subscribed. Nothing is requested while there are no subscribers; values requested before are
/// dropped then. A subject does not wait for demand: what it sends beyond the buffer is lost.
///
/// The values of a publisher that has finished are still delivered. Cancelling or releasing a `MergeInput` cancels all
/// merged publishers, and its subscribers receive nothing more. Neither keeps the `MergeInput` alive.
public final class MergeInput<I>: Publisher, Cancellable {
    public typealias Output = I
    public typealias Failure = Never

    private let core: MergeCore<I>

    /// Starts without publishers.
    /// - Parameter buffer: how many values of each publisher may wait for a subscriber, at least 1.
    public init(buffer: Int = 1024) {
        precondition(buffer > 0, "A buffer must have room for at least one value.")
        core = MergeCore(buffer: buffer)
    }

    deinit { cancel() }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == I, S.Failure == Never {
        Runner(MergeInputMachine(core), name: "MergeInput", downstream: subscriber).begin()
    }

    /// Merges the values of `publisher`.
    public func subscribe<P: Publisher>(_ publisher: P) where P.Output == I, P.Failure == Never {
        publisher.subscribe(core.newSource())
    }

    /// Merges the values of a subject. No values are sent to that subject.
    public func subscribe<S: Subject>(_ subject: S) where S.Output == I, S.Failure == Never {
        subject.subscribe(core.newSource())
    }

    public func cancel() { core.cancel() }
}

extension Publisher where Failure == Never {
    /// Adds this publisher to `input`.
    public func merge(into input: MergeInput<Output>) { input.subscribe(self) }
}

/// Safe to use from any thread if its values are `Sendable`.
extension MergeInput: @unchecked Sendable where I: Sendable {}

/// A value of a merged publisher, for one subscriber.
private struct MergeSignal<I> {
    let value: I
    let source: MergeSource<I>
}

/// The merged publishers and their subscribers.
private final class MergeCore<I>: @unchecked Sendable {
    typealias Member = Inlet<MergeSignal<I>, I, Never>

    private let buffer: Int
    private let lock = Lock()

    // Protected by the lock, like the state of the sources.
    private var sources: [MergeSource<I>] = []
    private var members: [Member] = []
    private var isCancelled = false

    init(buffer: Int) { self.buffer = buffer }

    // Subscribers

    /// Adds a subscriber.
    /// - Returns: the sources from which more can be requested then, with `pull`.
    func join(_ member: Member) -> [MergeSource<I>] {
        lock.with {
            guard !isCancelled else { return [] }
            members.append(member)
            for source in sources { source.taken[ObjectIdentifier(member)] = source.arrived }
            return sources
        }
    }

    /// Removes a subscriber, which may have been the slowest.
    func leave(_ member: ObjectIdentifier) {
        let (removed, sources) = lock.with { () -> (Member?, [MergeSource<I>]) in
            for source in self.sources { source.taken[member] = nil }
            let index = members.firstIndex { ObjectIdentifier($0) == member }
            return (index.map { members.remove(at: $0) }, self.sources)
        }
        for source in sources { pull(source) }
        _ = removed
    }

    /// Notes that a subscriber has received a value.
    /// - Returns: true if `pull` must be called.
    func took(from source: MergeSource<I>, by member: ObjectIdentifier) -> Bool {
        lock.with {
            guard let taken = source.taken[member] else { return false }
            source.taken[member] = taken + 1
            guard !source.isReceiving, !source.isPullDue else { return false }
            source.isPullDue = true
            return true
        }
    }

    /// Requests as many values as the slowest subscriber has room for.
    func pull(_ source: MergeSource<I>) {
        lock.lock()
        source.isPullDue = false
        // A call in progress will return the demand.
        guard !source.isReceiving, let subscription = source.subscription else { return lock.unlock() }
        let more = source.ask(buffer)
        lock.unlock()
        if more > 0 { subscription.request(.max(more)) }
    }

    // Sources

    func newSource() -> MergeSource<I> {
        let source = MergeSource(self)
        lock.with {
            source.isOver = isCancelled
            guard !isCancelled else { return }
            for member in members { source.taken[ObjectIdentifier(member)] = 0 }
            sources.append(source)
        }
        return source
    }

    func open(_ source: MergeSource<I>, _ subscription: any Subscription) {
        let isFirst = lock.with {
            guard source.subscription == nil, !source.isOver else { return false }
            source.subscription = subscription
            return true
        }
        if isFirst { pull(source) } else { subscription.cancel() }
    }

    func distribute(_ value: I, from source: MergeSource<I>) -> Subscribers.Demand {
        lock.lock()
        guard !source.isOver, source.arrived < source.asked else {
            lock.unlock()
            return .none
        }
        source.arrived += 1
        source.isReceiving = true
        let members = members
        lock.unlock()
        for member in members { member.submit(MergeSignal(value: value, source: source)) }
        return lock.with {
            source.isReceiving = false
            return .max(source.isOver ? 0 : source.ask(buffer))
        }
    }

    func finish(_ source: MergeSource<I>) {
        let ended = lock.with { () -> (any Subscription)? in
            source.isOver = true
            sources.removeAll { $0 === source }
            return source.subscription.take()
        }
        _ = ended
    }

    func cancel() {
        let (subscriptions, members) = lock.with { () -> ([any Subscription], [Member]) in
            defer { (self.sources, self.members) = ([], []) }
            isCancelled = true
            for source in sources { source.isOver = true }
            return (sources.compactMap { $0.subscription.take() }, self.members)
        }
        for subscription in subscriptions { subscription.cancel() }
        for member in members { (member as? any Subscription)?.cancel() }
    }
}

/// A merged publisher's subscriber.
private final class MergeSource<I>: Subscriber, CustomStringConvertible, @unchecked Sendable {
    private let core: MergeCore<I>

    // Protected by the lock of the core.
    fileprivate(set) var subscription: (any Subscription)?
    /// Values requested so far, and values that have arrived.
    fileprivate(set) var asked = 0
    fileprivate(set) var arrived = 0
    /// How many of the arrived values each subscriber has received, or missed before it subscribed.
    fileprivate(set) var taken: [ObjectIdentifier: Int] = [:]
    /// Whether a value is being distributed. Demand is returned from that call.
    fileprivate(set) var isReceiving = false
    /// Whether a subscriber is about to call `pull`.
    fileprivate(set) var isPullDue = false
    fileprivate(set) var isOver = false

    init(_ core: MergeCore<I>) { self.core = core }

    /// Notes that more is requested, and returns how much. Called with the lock held.
    func ask(_ buffer: Int) -> Int {
        guard let slowest = taken.values.min() else { return 0 }
        let more = max(0, slowest + buffer - asked)
        asked += more
        return more
    }

    func receive(subscription: any Subscription) { core.open(self, subscription) }
    func receive(_ input: I) -> Subscribers.Demand { core.distribute(input, from: self) }
    func receive(completion: Subscribers.Completion<Never>) { core.finish(self) }

    var description: String { "MergeInput" }
}

/// One subscriber: its waiting values, no more than `buffer` of each source.
private struct MergeInputMachine<I>: StreamMachine {
    private let core: MergeCore<I>
    /// The waiting values of each source that has some.
    private var waiting: [ObjectIdentifier: Queue<I>] = [:]
    /// These sources, in the order in which it is their turn.
    private var turns = Queue<MergeSource<I>>()

    init(_ core: MergeCore<I>) { self.core = core }

    mutating func open(_ inlet: Inlet<MergeSignal<I>, I, Never>) {
        let sources = core.join(inlet)
        inlet.afterwards { [core] in
            for source in sources { core.pull(source) }
        }
    }

    mutating func receive(_ signal: MergeSignal<I>, _ outlet: Outlet<I, Never>) {
        let source = signal.source
        if outlet.demand > .none, turns.isEmpty { return send(signal.value, of: source, outlet) }
        let id = ObjectIdentifier(source)
        if waiting[id] == nil { turns.append(source) }
        waiting[id, default: Queue()].append(signal.value)
    }

    mutating func request(_ demand: Subscribers.Demand, _ outlet: Outlet<I, Never>) {
        while outlet.demand > .none, !outlet.isOver, let source = turns.popFirst() {
            let id = ObjectIdentifier(source)
            guard let value = waiting[id]?.popFirst() else { continue }
            if waiting[id]?.isEmpty == true { waiting[id] = nil } else { turns.append(source) }
            send(value, of: source, outlet)
        }
    }

    private func send(_ value: I, of source: MergeSource<I>, _ outlet: Outlet<I, Never>) {
        outlet.send(value)
        if core.took(from: source, by: ObjectIdentifier(outlet)) {
            outlet.afterwards { [core] in core.pull(source) }
        }
    }

    mutating func stop(_ outlet: Outlet<I, Never>) {
        core.leave(ObjectIdentifier(outlet))
        waiting = [:]
        turns.removeAll()
    }
}
