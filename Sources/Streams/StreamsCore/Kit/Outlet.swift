// Outlet: an operator's or source's interface to its subscriber.

import Synchronization

/// Sends an operator's output to its subscriber. Use it only while the operator is being called.
public class Outlet<Output, Failure: Error> {
    /// The number of values that the subscriber has requested and not yet received.
    public final internal(set) var demand = Subscribers.Demand.none
    /// Demand that the subscriber returned from `receive`, not yet passed to the operator.
    final var returned = Subscribers.Demand.none
    /// Demand for the only upstream, if there is one.
    final var wanted = Subscribers.Demand.none
    /// Work to do after the current events have been handled.
    final var postponed: [() -> Void] = []
    /// The upstreams with demand to be sent at the same time, if there are several.
    final var owing: [Upstream] = []
    /// Ended or cancelled; set under the lock, read from any thread.
    final let over = Atomic<Bool>(false)

    init() {}

    /// Whether the stream has ended or was cancelled. Anything sent afterwards is ignored.
    public final var isOver: Bool { over.load(ordering: .relaxed) }

    /// Delivers a value. The operator must send no more values than `demand` allows.
    public func send(_ value: Output) { preconditionFailure("A subclass must override this.") }

    /// Ends the stream. Upstream is cancelled if it has not ended, and nothing more is received from it.
    public func send(completion: Subscribers.Completion<Failure>) {
        preconditionFailure("A subclass must override this.")
    }

    /// Requests values from upstream after this call. For operators with a single upstream.
    public final func requestUpstream(_ demand: Subscribers.Demand) { wanted += demand }

    /// Cancels upstream without ending the stream. For operators with a single upstream.
    public func cancelUpstream() { preconditionFailure("A subclass must override this.") }

    /// Replaces the upstream, which has ended. The new link is not subscribed yet; when it is, it requests all
    /// outstanding demand.
    func replaceUpstream(with upstream: LinkSubscription) {
        preconditionFailure("A subclass must override this.")
    }

    /// Runs a closure after the operator has returned. For calls that may call the operator back immediately, such as
    /// subscribing to another publisher.
    public final func afterwards(_ work: @escaping () -> Void) { postponed.append(work) }
}

/// An outlet whose operator accepts signals of a known type.
class Inlet<Signal, Output, Failure: Error>: Outlet<Output, Failure> {
    /// Submits a signal, from any thread.
    func submit(_ signal: Signal) { preconditionFailure("A subclass must override this.") }
}
