// Outlet: a stream's way to its subscriber, as the author of an operator or a source sees it.

import Synchronization

/// Where an operator puts what it has for its subscriber. To be used only while the operator is being called.
public class Outlet<Output, Failure: Error> {
    /// What the subscriber asked for and has not yet received.
    public final internal(set) var demand = Subscribers.Demand.none
    /// What it asked for by what it returned from `receive`, of which the operator is still to be told.
    final var returned = Subscribers.Demand.none
    /// What is wanted of the only upstream, if there is one.
    final var wanted = Subscribers.Demand.none
    /// What is to be done when this turn is over.
    final var postponed: [() -> Void] = []
    /// What is wanted of one of several upstreams goes out then, too.
    final var owing: [Upstream] = []
    /// Ended or cancelled; set under the lock, read by anyone.
    final let over = Atomic<Bool>(false)

    init() {}

    /// The stream has ended, or was cancelled; whatever is sent goes nowhere.
    public final var isOver: Bool { over.load(ordering: .relaxed) }

    /// Delivers a value. Only as many may be sent as `demand` tells, which is what the operator is there to see to.
    public func send(_ value: Output) { preconditionFailure("a subclass does this") }

    /// Ends the stream: what comes from upstream is not wanted any more, and upstream is cancelled if it has not ended.
    public func send(completion: Subscribers.Completion<Failure>) { preconditionFailure("a subclass does this") }

    /// Asks upstream for values, once this call is over. Of use to operators with a single upstream.
    public final func requestUpstream(_ demand: Subscribers.Demand) { wanted += demand }

    /// Wants nothing more of upstream, though the stream goes on. Of use to operators with a single upstream.
    public func cancelUpstream() { preconditionFailure("a subclass does this") }

    /// Has another upstream take the place of the one that has ended. The link is still to be subscribed, and asks then
    /// for all that is outstanding.
    func replaceUpstream(with upstream: LinkSubscription) {
        preconditionFailure("a subclass does this")
    }

    /// Has something done when the operator is not at work any more: whatever may call it back at once, such as
    /// subscribing to another publisher.
    public final func afterwards(_ work: @escaping () -> Void) { postponed.append(work) }
}

/// An outlet whose operator takes signals of a known type.
class Inlet<Signal, Output, Failure: Error>: Outlet<Output, Failure> {
    /// Hands in a signal, from any thread.
    func submit(_ signal: Signal) { preconditionFailure("a subclass does this") }
}
