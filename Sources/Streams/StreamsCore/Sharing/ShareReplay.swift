// shareReplay: one subscription upstream for all subscribers, and the last values for those that come late.

extension Publisher {
    /// Shares this publisher: the first subscriber makes the only subscription upstream; one that comes later begins
    /// with the last `capacity` values, and gets the end when it comes after that.
    ///
    /// Each subscriber has demand and a buffer of its own. A value that it has not asked for waits in that, up to
    /// `capacity` values, one at least; what happens when it is full is said by `overflow`. The end comes behind what
    /// waits. The subscription upstream ends when neither the publisher nor a subscriber is there any more.
    ///
    /// - Parameters:
    ///   - capacity: number of values, at least 0.
    ///   - overflow: with `block`, upstream is asked for as much as the slowest subscriber has room for; else for all
    ///     it has.
    public func shareReplay(
        capacity: Int, overflow: Publishers.ReplayOverflow<Failure> = .dropOldest
    ) -> Publishers.ShareReplay<Self> {
        Publishers.ShareReplay(upstream: self, capacity: capacity, overflow: overflow)
    }
}

extension Publishers {
    /// See `Publisher.shareReplay`.
    public final class ShareReplay<Upstream: Publisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        private let replayer: Replayer<Output, Failure>
        private let lock = Lock()
        private var isConnected = false

        init(upstream: Upstream, capacity: Int, overflow: ReplayOverflow<Failure>) {
            self.upstream = upstream
            replayer = Replayer(capacity: capacity, overflow: overflow)
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            replayer.attach(subscriber, owner: self)
            let isFirst = lock.with {
                defer { isConnected = true }
                return !isConnected
            }
            if isFirst { upstream.subscribe(Feeder(replayer)) }
        }
    }
}

/// May be used from any thread, if its values may be.
extension Publishers.ShareReplay: @unchecked Sendable where Upstream.Output: Sendable {}

/// Feeds a replayer. Keeps it alive by no more than what others do: nobody would see the values.
private final class Feeder<Output, Failure: Error>: Subscriber, CustomStringConvertible {
    private weak let replayer: Replayer<Output, Failure>?

    init(_ replayer: Replayer<Output, Failure>) { self.replayer = replayer }

    func receive(subscription: any Subscription) {
        if replayer?.connect(subscription) != true { subscription.cancel() }
    }

    func receive(_ input: Output) -> Subscribers.Demand {
        replayer?.append(input)
        return .none
    }

    func receive(completion: Subscribers.Completion<Failure>) { replayer?.finish(completion) }

    var description: String { "ShareReplay" }
}
