// BufferSubject: a subject that replays its buffer to everyone who comes.

/// A subject that retains values, and replays them, and its end, to every later subscriber. Each subscriber's buffer is
/// its own: one that does not ask for values loses none for another.
public final class BufferSubject<Output, Failure: Error>: Subject {
    private let replayer: Replayer<Output, Failure>
    let upstreams = SubjectUpstreams()

    /// - Parameters:
    ///   - limit: values retained, and values that may wait for each subscriber; at least 0.
    ///   - whenFull: what becomes of a value for which there is no room: with those that a subscriber has not asked
    ///     for, and with those retained. `customError` ends the subscriber that it happens to; the latest values
    ///     remain for others.
    public init(limit: Int = 1, whenFull: Publishers.BufferingStrategy<Failure> = .dropOldest) {
        replayer = Replayer(capacity: limit, overflow: Publishers.ReplayOverflow(whenFull))
        upstreams.want()
    }

    public func send(_ value: Output) { replayer.append(value) }
    public func send(completion: Subscribers.Completion<Failure>) { replayer.finish(completion) }

    /// Asks for all that there is: it has room for it always.
    public func send(subscription: any Subscription) { upstreams.add(subscription) }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        replayer.attach(subscriber, owner: self)
    }
}

/// May be used from any thread, if its values may be.
extension BufferSubject: @unchecked Sendable where Output: Sendable {}

extension BufferSubject: FedSubject {}
