// autoconnect and share: connected while there are subscribers.

extension ConnectablePublisher {
    /// Connects when the first subscriber has subscribed, and disconnects when the last one has cancelled.
    public func autoconnect() -> Publishers.Autoconnect<Self> { Publishers.Autoconnect(upstream: self) }
}

extension Publisher {
    /// Shares one upstream subscription among all subscribers, from the first subscription until the last one is
    /// cancelled. Each subscriber receives the values that arrive while it is subscribed and for which it has demand.
    public func share() -> Publishers.Share<Self> { Publishers.Share(upstream: self) }
}

extension Publishers {
    /// See `ConnectablePublisher.autoconnect`.
    public class Autoconnect<Upstream: ConnectablePublisher>: Publisher {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        private enum State {
            case disconnected
            /// The first subscriber is establishing the connection.
            case connecting
            case connected(any Cancellable)
        }

        public final let upstream: Upstream
        private let lock = Lock()
        private var state = State.disconnected
        private var subscribers = 0

        public init(upstream: Upstream) { self.upstream = upstream }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            let isFirst = lock.with {
                subscribers += 1
                guard case .disconnected = state else { return false }
                state = .connecting
                return true
            }
            // A subscriber keeps this object alive, because it holds the connection.
            upstream.subscribe(SharedSubscription(downstream: subscriber) { self.subscriberLeft() })
            if isFirst { connect() }
        }

        private func connect() {
            let connection = upstream.connect()
            let isWanted = lock.with {
                state = subscribers > 0 ? .connected(connection) : .disconnected
                return subscribers > 0
            }
            // All subscribers have left in the meantime.
            if !isWanted { connection.cancel() }
        }

        private func subscriberLeft() {
            let connection = lock.with { () -> (any Cancellable)? in
                subscribers -= 1
                guard subscribers == 0, case .connected(let connection) = state else { return nil }
                state = .disconnected
                return connection
            }
            connection?.cancel()
        }
    }

    /// See `Publisher.share`.
    public final class Share<Upstream: Publisher>: Publisher, Equatable {
        public typealias Output = Upstream.Output
        public typealias Failure = Upstream.Failure

        public let upstream: Upstream
        private let inner: Autoconnect<Multicast<Upstream, PassthroughSubject<Output, Failure>>>

        public init(upstream: Upstream) {
            self.upstream = upstream
            inner = upstream.multicast { PassthroughSubject() }.autoconnect()
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Output, S.Failure == Failure {
            inner.subscribe(subscriber)
        }

        public static func == (lhs: Share, rhs: Share) -> Bool { lhs === rhs }
    }
}

/// Safe to use from any thread if its values are `Sendable`.
extension Publishers.Autoconnect: @unchecked Sendable where Upstream.Output: Sendable {}

/// Safe to use from any thread if its values are `Sendable`.
extension Publishers.Share: @unchecked Sendable where Upstream.Output: Sendable {}
