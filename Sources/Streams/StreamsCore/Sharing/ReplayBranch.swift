// ReplayBranch: one subscriber of a replayer, with its values.

import Replay

/// A branch as the replayer sees it.
class ReplayBranch<Output, Failure: Error>: ReplayPlace, @unchecked Sendable {
    // Protected by the lock.
    private final var buffer: ReplayBuffer<Output>
    private final var lost = Queue<Output>()
    /// The completion that must be delivered.
    final var due: End?

    // Used only by the thread that is delivering.
    private final var batch = Queue<Output>()

    init(_ buffer: consuming ReplayBuffer<Output>) {
        self.buffer = buffer
        super.init()
    }

    /// Delivers a value. Called by the thread that is delivering.
    func pass(_ value: Output) { preconditionFailure("A subclass must override this.") }
    /// Delivers the completion if it is still due. Called like `pass`.
    func finish() { preconditionFailure("A subclass must override this.") }

    // Called with the lock held.

    /// Handles a value that the lane did not let pass.
    /// - Returns: true if the caller must deliver it now.
    final func resolve(_ value: Output) -> Bool {
        let passes = buffer.resolve(value, &state.pointee.lane, lost: &lost)
        state.pointee.hasLost = !lost.isEmpty
        return passes
    }

    /// Keeps a deliverable value for the thread that is delivering.
    final func keep(_ value: Output) {
        buffer.keep(value)
        state.pointee.hasMore = true
    }

    final func end() {
        buffer.end(&state.pointee.lane)
        state.pointee.hasMore = true
    }

    final func add(_ demand: Subscribers.Demand) {
        buffer.request(demand, &state.pointee.lane)
        state.pointee.hasMore = buffer.hasReady || buffer.isEndDue
    }

    final var isEndDue: Bool { buffer.isEndDue }

    override final func grant(_ demand: Subscribers.Demand) {
        buffer.request(demand, &state.pointee.lane)
        state.pointee.hasMore = true
    }

    override final func takeNext() -> Bool {
        if buffer.hasReady {
            batch = buffer.takeReady()
            return true
        }
        guard let end = buffer.takeEnd() else { return false }
        due = end
        state.pointee.over.store(true, ordering: .relaxed)
        return true
    }

    override final func horizon() -> SequenceNumber? { buffer.horizon(&state.pointee.lane) }

    // Called without the lock.

    override final func deliver() {
        if isOver { return finish() }
        while let value = batch.popFirst(), !isOver { pass(value) }
        batch.removeAll()
    }

    override final func releaseLost() {
        _ = takeLost()
    }

    func takeLost() -> Queue<Output> { preconditionFailure("A subclass must override this.") }

    /// Removes all values, for the caller to release without the lock. Called with the lock held.
    final func takeValues() -> [Queue<Output>] {
        var held = buffer.takeAll()
        held.append(moveLost())
        return held
    }

    /// Removes the lost values, for the caller to release without the lock. Called with the lock held.
    final func moveLost() -> Queue<Output> {
        var taken = Queue<Output>()
        swap(&taken, &lost)
        state.pointee.hasLost = false
        return taken
    }

    /// Drops the batch. Called by the thread that is delivering.
    final func dropBatch() { batch.removeAll() }
}

/// Holds a subscriber, so that the subscriber can be released at once and is not copied for each value.
private final class SubscriberBox<Downstream: Subscriber> {
    let downstream: Downstream
    init(_ downstream: Downstream) { self.downstream = downstream }
}

final class ReplaySubscription<Downstream: Subscriber>: ReplayBranch<Downstream.Input, Downstream.Failure>,
    Subscription, CustomStringConvertible, @unchecked Sendable
{
    typealias Output = Downstream.Input
    typealias Failure = Downstream.Failure

    private let shared: ReplayLock
    private let overflow: Publishers.ReplayOverflow<Failure>

    // Protected by the lock.
    private var replayer: Replayer<Output, Failure>?
    private var owner: AnyObject?

    // Used only by the thread that is delivering.
    /// A retained reference, in separate memory for the same reason as `ReplayState`.
    private let box = UnsafeMutablePointer<Unmanaged<SubscriberBox<Downstream>>?>.allocate(capacity: 1)

    init(
        _ downstream: Downstream, of replayer: Replayer<Output, Failure>, owner: AnyObject,
        buffer: consuming ReplayBuffer<Output>, overflow: Publishers.ReplayOverflow<Failure>
    ) {
        box.initialize(to: .passRetained(SubscriberBox(downstream)))
        self.replayer = replayer
        self.owner = owner
        self.overflow = overflow
        shared = replayer.shared
        super.init(buffer)
    }

    deinit {
        _ = takeBox()
        box.deallocate()
    }

    /// Passes the subscription to the subscriber.
    func begin() {
        let replayer = replayer
        box.pointee?.takeUnretainedValue().downstream.receive(subscription: self)
        if let replayer { release(by: replayer) }
    }

    private func release(by replayer: Replayer<Output, Failure>) {
        withExtendedLifetime(self) { replayer.release([ReplaySeat(self)]) }
    }

    override func pass(_ value: Output) {
        guard !isOver, let box = box.pointee else { return }
        // The box is not removed while this thread is delivering.
        let more = box._withUnsafeGuaranteedRef { $0.downstream.receive(value) }
        if more > .none { returned.pointee += more }
    }

    private func takeBox() -> SubscriberBox<Downstream>? {
        defer { box.pointee = nil }
        return box.pointee?.takeRetainedValue()
    }

    override func finish() {
        let (due, end) = shared.lock.with { (self.due.take(), replayer?.completion ?? .finished) }
        guard let due, let box = takeBox() else { return }
        if case .overflow = due, case .customError(let failure) = overflow {
            box.downstream.receive(completion: .failure(failure()))
        } else {
            box.downstream.receive(completion: end)
        }
    }

    override func clear() {
        let held = shared.lock.with { () -> (Any?, Any?, [Queue<Output>]) in
            (replayer.take(), owner.take(), takeValues())
        }
        let box = takeBox()
        dropBatch()
        _ = (held, box)
    }

    override func takeLost() -> Queue<Output> { shared.lock.with { moveLost() } }

    // Called by the subscriber.

    func request(_ demand: Subscribers.Demand) {
        guard demand > .none, !isOver else { return }
        shared.lock.lock()
        guard !isOver, let replayer else { return shared.lock.unlock() }
        if state.pointee.lane.grant(demand) {
            shared.lock.unlock()
            return replayer.pull()
        }
        let isMine = !state.pointee.isAtWork
        if isMine { add(demand) } else { grant(demand) }
        let hasWork = isMine && state.pointee.hasMore
        if hasWork { state.pointee.isAtWork = true }
        shared.lock.unlock()
        if hasWork { release(by: replayer) } else { replayer.pull() }
    }

    func cancel() {
        shared.lock.lock()
        guard !isOver, let replayer else {
            // A thread that is about to deliver the completion must no longer do so.
            due = nil
            return shared.lock.unlock()
        }
        state.pointee.over.store(true, ordering: .relaxed)
        replayer.discard(self)
        let isMine = !state.pointee.isAtWork
        state.pointee.isAtWork = true
        shared.lock.unlock()
        // Otherwise the thread that is delivering clears the branch when the subscriber returns.
        if isMine { clear() }
        // This may have been the slowest subscriber.
        replayer.pull()
    }

    var description: String { "Replay" }
}
