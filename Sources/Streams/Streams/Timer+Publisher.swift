// Foundation's Timer as a publisher.

import Foundation
import StreamsCore

extension Timer {
    /// A publisher of the time, again and again, once it is connected. All its subscribers share one timer; what one of
    /// them has not asked for it does not get.
    ///
    /// - Parameters:
    ///   - interval: between values, and before the first one; in seconds.
    ///   - tolerance: how much later a value may come; in seconds.
    ///   - runLoop: where values are delivered.
    ///   - mode: in which the loop does so.
    ///   - options: there is nothing to choose.
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
        /// Seconds that a tick may come late; nil leaves it to the timer.
        public let tolerance: TimeInterval?
        /// The run loop that ticks.
        public let runLoop: RunLoop
        /// The mode of the run loop in which it ticks.
        public let mode: RunLoop.Mode
        /// There is nothing to be chosen.
        public let options: RunLoop.SchedulerOptions?
        private let subject = PassthroughSubject<Date, Never>()

        /// Ticks every `interval` seconds once it is connected, in a run loop that runs in `mode`.
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

        /// Starts a timer. Connecting twice starts a second one.
        public func connect() -> any Cancellable {
            // The first time is told, as Foundation on Linux fires at once otherwise.
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
