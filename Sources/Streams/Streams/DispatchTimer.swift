// A timer of Dispatch as a publisher.

import Dispatch
import StreamsCore

extension Publishers {
    /// A publisher of the time, again and again, as `DispatchTimer` describes.
    ///
    /// - Parameters:
    ///   - queue: where values are delivered; a queue of the system's if it is nil.
    ///   - interval: between values, and before the first one.
    ///   - leeway: how much later a value may come.
    ///   - times: how many values are published before the stream finishes.
    public static func timer(
        queue: DispatchQueue? = nil, interval: DispatchTimeInterval,
        leeway: DispatchTimeInterval = .nanoseconds(0), times: Subscribers.Demand = .unlimited
    ) -> DispatchTimer {
        DispatchTimer(queue: queue, interval: interval, leeway: leeway, times: times)
    }

    /// Publishes the time, once in an interval. Each subscriber has a timer of its own, which starts when it asks for a
    /// value for the first time. When the interval has passed and no value is asked for, none is published, and it is
    /// not counted.
    public struct DispatchTimer: Publisher {
        public typealias Output = DispatchTime
        public typealias Failure = Never

        /// Where values are delivered; nil for a global queue.
        public let queue: DispatchQueue?
        /// Between values, and before the first one.
        public let interval: DispatchTimeInterval
        /// How much later a value may come.
        public let leeway: DispatchTimeInterval
        /// How many values there are before the end.
        public let times: Subscribers.Demand

        /// See `Publishers.timer`.
        public init(
            queue: DispatchQueue? = nil, interval: DispatchTimeInterval,
            leeway: DispatchTimeInterval = .nanoseconds(0), times: Subscribers.Demand = .unlimited
        ) {
            self.queue = queue
            self.interval = interval
            self.leeway = leeway
            self.times = times
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == DispatchTime, S.Failure == Never {
            guard times > .none else {
                subscriber.receive(subscription: Subscriptions.empty)
                return subscriber.receive(completion: .finished)
            }
            subscriber.receive(subscription: Inner(self, downstream: subscriber))
        }

        /// Not of the kit, in which a value may be delivered by a thread that just asks for one: all are to come from
        /// the queue, where a timer never comes twice at once.
        private final class Inner<Downstream: Subscriber>: Subscription, CustomStringConvertible, @unchecked Sendable
        where Downstream.Input == DispatchTime, Downstream.Failure == Never {
            private let timer: DispatchTimer

            // Under the lock
            private let lock = Lock()
            private var downstream: Downstream?
            private var source: (any DispatchSourceTimer)?
            private var demand = Subscribers.Demand.none
            private var remaining: Subscribers.Demand

            init(_ timer: DispatchTimer, downstream: Downstream) {
                self.timer = timer
                self.downstream = downstream
                remaining = timer.times
            }

            func request(_ demand: Subscribers.Demand) {
                guard demand > .none else { return }
                lock.with {
                    self.demand += demand
                    if source == nil, downstream != nil { start() }
                }
            }

            /// A source that is not active yet cannot be let go of, so there is none before it is needed.
            private func start() {
                let source = DispatchSource.makeTimerSource(queue: timer.queue)
                source.schedule(deadline: .now() + timer.interval, repeating: timer.interval, leeway: timer.leeway)
                source.setEventHandler { self.tick() }
                source.activate()
                self.source = source
            }

            private func tick() {
                lock.lock()
                guard demand > .none, let downstream else { return lock.unlock() }
                demand -= 1
                remaining -= 1
                let isLast = remaining == .none
                lock.unlock()
                let more = downstream.receive(.now())
                if isLast {
                    end()?.receive(completion: .finished)
                } else if more > .none {
                    lock.with { demand += more }
                }
            }

            func cancel() { _ = end() }

            private func end() -> Downstream? {
                let held = lock.with {
                    defer { (downstream, source) = (nil, nil) }
                    return (downstream, source)
                }
                held.1?.cancel()
                return held.0
            }

            var description: String { "DispatchTimer" }
        }
    }
}
