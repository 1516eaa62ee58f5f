// multicast: one subscription upstream for all, whose values go through a subject.

extension Publisher {
    /// Has all subscribers share one subscription upstream, which `connect()` makes, through a subject.
    /// - Parameter createSubject: called once, when the subject is first needed.
    public func multicast<S: Subject>(_ createSubject: @escaping @Sendable () -> S) -> Publishers.Multicast<Self, S>
    where S.Output == Output, S.Failure == Failure {
        Publishers.Multicast(upstream: self, createSubject: createSubject)
    }

    /// Has all subscribers share one subscription upstream, which `connect()` makes, through `subject`.
    public func multicast<S: Subject>(subject: S) -> Publishers.Multicast<Self, S>
    where S.Output == Output, S.Failure == Failure {
        let subject = Unchecked(subject)
        return multicast { subject.value }
    }
}

extension Publisher where Failure == Never {
    /// Delivers nothing until it is connected.
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

        /// Made outside of the lock; of two threads that make one at once, the first to be done is right.
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
        /// - Returns: what disconnects when it is cancelled or let go of. The subject and its subscribers remain, and
        ///   can be connected again.
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

/// May be used from any thread, if its values may be.
extension Publishers.Multicast: @unchecked Sendable where Upstream.Output: Sendable {}
