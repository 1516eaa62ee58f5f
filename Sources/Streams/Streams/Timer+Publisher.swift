// Timer.TimerPublisher: a Foundation timer as a publisher.

import Foundation
import StreamsCore

extension Timer {
    /// A publisher that publishes the current time repeatedly once it is connected. All its subscribers share one
    /// timer. A subscriber misses the values for which it has no demand.
    ///
    /// - Parameters:
    ///   - interval: the time between values, and before the first one, in seconds.
    ///   - tolerance: how late a value may be, in seconds.
    ///   - runLoop: the run loop on which values are delivered.
    ///   - mode: the run loop mode in which values are delivered.
    ///   - options: unused.
    public static func publish(
        every interval: TimeInterval, tolerance: TimeInterval? = nil, on runLoop: RunLoop, in mode: RunLoop.Mode,
        options: RunLoop.SchedulerOptions? = nil
    ) -> TimerPublisher {
        TimerPublisher(interval: interval, tolerance: tolerance, runLoop: runLoop, mode: mode, options: options)
    }

    /// See `Timer.publish`.
    public final class TimerPublisher: ConnectablePublisher, @unchecked Sendable {
        public typealias Output = Date
        public typealias Failure = Never

        /// Seconds between ticks.
        public let interval: TimeInterval
        /// Seconds that a tick may be late; if nil, the timer's default.
        public let tolerance: TimeInterval?
        /// The run loop on which the timer ticks.
        public let runLoop: RunLoop
        /// The mode of the run loop in which the timer ticks.
        public let mode: RunLoop.Mode
        /// Unused.
        public let options: RunLoop.SchedulerOptions?
        private let subject = PassthroughSubject<Date, Never>()

        /// Once connected, ticks every `interval` seconds while the run loop runs in `mode`.
        public init(
            interval: TimeInterval, tolerance: TimeInterval? = nil, runLoop: RunLoop, mode: RunLoop.Mode,
            options: RunLoop.SchedulerOptions? = nil
        ) {
            self.interval = interval
            self.tolerance = tolerance
            self.runLoop = runLoop
            self.mode = mode
            self.options = options
        }

        public func receive<S: Subscriber>(subscriber: S) where S.Input == Date, S.Failure == Never {
            subject.receive(subscriber: subscriber)
        }

        /// Starts a timer. Connecting twice starts a second timer.
        public func connect() -> any Cancellable {
            // The first date is explicit, because otherwise Foundation on Linux fires immediately.
            let timer = Timer(fire: Date(timeIntervalSinceNow: interval), interval: interval, repeats: true) {
                [subject] _ in
                subject.send(Date())
            }
            if let tolerance { timer.tolerance = tolerance }
            runLoop.add(timer, forMode: mode)
            let running = Unchecked(timer)
            return AnyCancellable { running.value.invalidate() }
        }
    }
}
