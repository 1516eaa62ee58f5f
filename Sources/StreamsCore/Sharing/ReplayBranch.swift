// ReplayBranch: one subscriber of a replayer. What is for it is in its buffer, under the lock that all of a replayer's
// branches share; one thread at a time, which holds no lock, delivers to it.

import Replay
import Synchronization

/// The lock of a replayer, which is there as long as one of its branches.
final class ReplayLock: Sendable {
    let lock = Lock()
}

/// A branch as its replayer sees it.
class ReplayBranch<Output, Failure: Error>: @unchecked Sendable {
    // Under the lock
    final var buffer: ReplayBuffer<Output>
    /// Some thread delivers, as one does from the beginning.
    final var isAtWork = true
    /// The end is to be delivered.
    final var due: End?

    /// Ended or cancelled; set under the lock, read by anyone.
    final let over = Atomic<Bool>(false)

    // For who is at work
    /// What the subscriber asked for by what it returned.
    final var returned = Subscribers.Demand.none
    /// What is to be delivered next.
    final var batch = Queue<Output>()

    init(_ buffer: ReplayBuffer<Output>) { self.buffer = buffer }

    final var isOver: Bool { over.load(ordering: .relaxed) }

    /// Delivers a value. Called by who is at work.
    func pass(_ value: Output) { preconditionFailure("a subclass does this") }
    /// Delivers the end, if it is still due, as `pass` does.
    func finish() { preconditionFailure("a subclass does this") }
    /// Lets go of everything. It is over, and nobody else is at work.
    func clear() { preconditionFailure("a subclass does this") }

    /// Delivers the batch, or the end.
    final func deliver() {
        if isOver { return finish() }
        while let value = batch.popFirst(), !isOver { pass(value) }
        batch.removeAll()
    }
}

final class ReplaySubscription<Downstream: Subscriber>: ReplayBranch<Downstream.Input, Downstream.Failure>,
    Subscription, CustomStringConvertible, @unchecked Sendable
{
    typealias Output = Downstream.Input
    typealias Failure = Downstream.Failure

    private let shared: ReplayLock
    private let overflow: Publishers.ReplayOverflow<Failure>

    // Under the lock
    private var replayer: Replayer<Output, Failure>?
    private var owner: AnyObject?

    // For who is at work
    private var downstream: Downstream?

    init(
        _ downstream: Downstream, of replayer: Replayer<Output, Failure>, owner: AnyObject,
        buffer: ReplayBuffer<Output>, overflow: Publishers.ReplayOverflow<Failure>
    ) {
        self.downstream = downstream
        self.replayer = replayer
        self.owner = owner
        self.overflow = overflow
        shared = replayer.shared
        super.init(buffer)
    }

    /// Hands the subscriber its subscription.
    func begin() {
        let replayer = replayer
        downstream?.receive(subscription: self)
        replayer?.release([self])
    }

    override func pass(_ value: Output) {
        guard !isOver, let more = downstream?.receive(value) else { return }
        if more > .none { returned += more }
    }

    override func finish() {
        let (due, end) = shared.lock.with { (self.due.take(), replayer?.completion ?? .finished) }
        guard let due, let downstream = downstream.take() else { return }
        if case .overflow = due, case .customError(let failure) = overflow {
            downstream.receive(completion: .failure(failure()))
        } else {
            downstream.receive(completion: end)
        }
    }

    override func clear() {
        let held = shared.lock.with { () -> (Any?, Any?, [Queue<Output>]) in
            (replayer.take(), owner.take(), buffer.takeAll())
        }
        downstream = nil
        batch.removeAll()
        _ = held
    }

    // From the subscriber

    func request(_ demand: Subscribers.Demand) {
        guard demand > .none, !isOver else { return }
        shared.lock.lock()
        guard !isOver, let replayer else { return shared.lock.unlock() }
        buffer.request(demand)
        let isMine = !isAtWork && (buffer.hasReady || buffer.isEndDue)
        if isMine { isAtWork = true }
        shared.lock.unlock()
        if isMine { replayer.release([self]) }
        replayer.pull()
    }

    func cancel() {
        shared.lock.lock()
        guard !isOver, let replayer else {
            // Whoever is about to deliver the end does not any more.
            due = nil
            return shared.lock.unlock()
        }
        over.store(true, ordering: .relaxed)
        replayer.forget(self)
        let isMine = !isAtWork
        isAtWork = true
        shared.lock.unlock()
        // Who is at work clears up when the subscriber returns.
        if isMine { clear() }
        // It may have been the slowest.
        replayer.pull()
    }

    var description: String { "Replay" }
}
