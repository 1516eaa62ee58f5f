// RunLoop as a scheduler.

import Foundation
import StreamsCore

extension RunLoop: Scheduler {
    /// A moment on the clock of the day.
    public struct SchedulerTimeType: Strideable, Codable, Hashable, Sendable {
        /// The moment, as a date.
        public var date: Date

        /// A moment, as a date.
        public init(_ date: Date) { self.date = date }

        public func distance(to other: SchedulerTimeType) -> Stride { Stride(other.date.timeIntervalSince(date)) }
        public func advanced(by n: Stride) -> SchedulerTimeType {
            SchedulerTimeType(date.addingTimeInterval(n.timeInterval))
        }

        /// A length of time in seconds.
        public struct Stride: SecondsStride {
            public var magnitude: TimeInterval

            /// A number of seconds.
            public init(_ timeInterval: TimeInterval) { magnitude = timeInterval }
        }
    }

    /// There is nothing to choose.
    public struct SchedulerOptions: Sendable {
        /// There is nothing to be chosen.
        public init() {}
    }

    public var now: SchedulerTimeType { SchedulerTimeType(Date()) }
    public var minimumTolerance: SchedulerTimeType.Stride { 0 }

    /// Carries out `action` when the loop runs in its default mode.
    public func schedule(options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void) {
        perform { action() }
        // Foundation on Linux does not wake a loop for what it is to perform, but for a timer.
        if self !== RunLoop.current {
            add(Timer(fire: .distantPast, interval: 0, repeats: false) { _ in }, forMode: .default)
        }
    }

    public func schedule(
        after date: SchedulerTimeType, tolerance: SchedulerTimeType.Stride, options: SchedulerOptions?,
        _ action: @escaping @Sendable () -> Void
    ) {
        let timer = Timer(fire: date.date, interval: 0, repeats: false) { _ in action() }
        timer.tolerance = tolerance.timeInterval
        add(timer, forMode: .default)
    }

    public func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, tolerance: SchedulerTimeType.Stride,
        options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable {
        let timer = Timer(fire: date.date, interval: interval.timeInterval, repeats: true) { _ in action() }
        timer.tolerance = tolerance.timeInterval
        add(timer, forMode: .default)
        let running = Unchecked(timer)
        return AnyCancellable { running.value.invalidate() }
    }
}
