// multicast: one upstream subscription for all subscribers, through a subject.

extension Publisher {
    /// Shares one upstream subscription, made by `connect()`, among all subscribers, through a subject.
    /// - Parameter createSubject: creates the subject when it is first needed.
    public func multicast<S: Subject>(_ createSubject: @escaping @Sendable () -> S) -> Publishers.Multicast<Self, S>
    where S.Output == Output, S.Failure == Failure {
        Publishers.Multicast(upstream: self, createSubject: createSubject)
    }

    /// Shares one upstream subscription, made by `connect()`, among all subscribers, through `subject`.
    public func multicast<S: Subject>(subject: S) -> Publishers.Multicast<Self, S>
    where S.Output == Output, S.Failure == Failure {
        let subject = Unchecked(subject)
        return multicast { subject.value }
    }
}

extension Publisher where Failure == Never {
    /// Delays delivery until `connect()` is called.
    public func makeConnectable() -> Publishers.MakeConnectable<Self> { Publishers.MakeConnectable(upstream: self) }
}

extension Publishers {
    /// See `Publisher.multicast`.
    public final class Multicast<Upstream: Publisher, SubjectType: Subject>: ConnectablePublisher
    where SubjectType.Output == Upstream.Output, SubjectType.Failure == Upstream.Failure {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        public let createSubject: @Sendable () -> SubjectType
        private let lock = Lock()
        private var made: SubjectType?

        public init(upstream: Upstream, createSubject: @escaping @Sendable () -> SubjectType) {
            self.upstream = upstream
            self.createSubject = createSubject
        }

        /// Created outside of the lock. If two threads create one concurrently, the first to finish wins.
        private var subject: SubjectType {
            if let subject = lock.with({ made }) { return subject }
            let subject = createSubject()
            return lock.with {
                if made == nil { made = subject }
                return made!
            }
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            subject.subscribe(SharedSubscription(name: "Multicast", downstream: subscriber))
        }

        /// Subscribes to upstream.
        /// - Returns: a cancellable that disconnects when it is cancelled or released. The subject and its
        ///   subscribers remain and can be connected again.
        public func connect() -> any Cancellable { upstream.subscribe(subject) }
    }

    /// See `Publisher.makeConnectable`.
    public struct MakeConnectable<Upstream: Publisher>: ConnectablePublisher where Upstream.Failure == Never {
        public typealias Output = Upstream.Output
        public typealias Failure = Never

        private let inner: Multicast<Upstream, PassthroughSubject<Output, Never>>

        public init(upstream: Upstream) { inner = upstream.multicast { PassthroughSubject() } }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Never {
            inner.subscribe(subscriber)
        }

        public func connect() -> any Cancellable { inner.connect() }
    }
}

/// Safe to use from any thread if its values are `Sendable`.
extension Publishers.Multicast: @unchecked Sendable where Upstream.Output: Sendable {}
