// shareReplay: one upstream subscription for all subscribers, and the latest values for late ones.

extension Publisher {
    /// Shares this publisher. The first subscriber makes the only upstream subscription. A later subscriber first
    /// receives the last `capacity` values, and then the completion if the stream has ended.
    ///
    /// Each subscriber has its own demand and its own buffer. Values for which it has no demand wait in the buffer,
    /// which holds `capacity` values, at least one; `overflow` determines what happens when it is full. The completion
    /// is delivered after the waiting values. The upstream subscription is cancelled when the publisher and all its
    /// subscribers are gone.
    ///
    /// - Parameters:
    ///   - capacity: the number of values, at least 0.
    ///   - overflow: with `block`, as much is requested from upstream as the slowest subscriber has room for; otherwise
    ///     unlimited values are requested.
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

/// Safe to use from any thread if its values are `Sendable`.
extension Publishers.ShareReplay: @unchecked Sendable where Upstream.Output: Sendable {}

/// Feeds a replayer. The feeder holds a weak reference, because without other owners nobody receives the values.
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
