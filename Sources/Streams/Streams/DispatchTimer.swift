// DispatchTimer: a Dispatch timer as a publisher.

import Dispatch
import StreamsCore

extension Publishers {
    /// A publisher that publishes the current time repeatedly. See `DispatchTimer`.
    ///
    /// - Parameters:
    ///   - queue: the queue on which values are delivered; if nil, a global queue.
    ///   - interval: the time between values, and before the first one.
    ///   - leeway: how late a value may be.
    ///   - times: the number of values after which the stream finishes.
    public static func timer(
        queue: DispatchQueue? = nil, interval: DispatchTimeInterval,
        leeway: DispatchTimeInterval = .nanoseconds(0), times: Subscribers.Demand = .unlimited
    ) -> DispatchTimer {
        DispatchTimer(queue: queue, interval: interval, leeway: leeway, times: times)
    }

    /// Publishes the current time once per interval. Each subscriber has its own timer, which starts with its first
    /// demand. If there is no demand at the end of an interval, no value is published, and the interval is not counted.
    public struct DispatchTimer: Publisher {
        public typealias Output = DispatchTime
        public typealias Failure = Never

        /// The queue on which values are delivered; nil for a global queue.
        public let queue: DispatchQueue?
        /// The time between values, and before the first one.
        public let interval: DispatchTimeInterval
        /// How late a value may be.
        public let leeway: DispatchTimeInterval
        /// The number of values after which the stream finishes.
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

        /// Does not use the kit, which may deliver a value on a thread that requests one: here all must come from the
        /// queue, on which a timer never fires twice concurrently.
        private final class Inner<Downstream: Subscriber>: Subscription, CustomStringConvertible, @unchecked Sendable
        where Downstream.Input == DispatchTime, Downstream.Failure == Never {
            private let timer: DispatchTimer

            // Protected by the lock.
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

            /// Created on first use, because an inactive source cannot be released.
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
