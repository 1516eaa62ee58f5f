// BufferSubject: a subject that replays its buffer to each new subscriber.

/// A subject that retains values and replays them, and its completion, to every later subscriber. Each subscriber has
/// its own buffer: a slow one does not make others lose values.
public final class BufferSubject<Output, Failure: Error>: Subject {
    private let replayer: Replayer<Output, Failure>
    let upstreams = SubjectUpstreams()

    /// - Parameters:
    ///   - limit: the number of retained values, and of values that may wait for each subscriber; at least 0.
    ///   - whenFull: what to do with a value if there is no room for it, either in a subscriber's buffer or among the
    ///     retained values. With `customError`, a subscriber whose buffer overflows fails; the latest values are still
    ///     retained for others.
    public init(limit: Int = 1, whenFull: Publishers.BufferingStrategy<Failure> = .dropOldest) {
        replayer = Replayer(capacity: limit, overflow: Publishers.ReplayOverflow(whenFull))
        upstreams.want()
    }

    public func send(_ value: Output) { replayer.append(value) }
    public func send(completion: Subscribers.Completion<Failure>) { replayer.finish(completion) }

    /// Requests unlimited values, because there is always room for them.
    public func send(subscription: any Subscription) { upstreams.add(subscription) }

    public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
        replayer.attach(subscriber, owner: self)
    }
}

/// Safe to use from any thread if its values are `Sendable`.
extension BufferSubject: @unchecked Sendable where Output: Sendable {}

extension BufferSubject: FedSubject {}
