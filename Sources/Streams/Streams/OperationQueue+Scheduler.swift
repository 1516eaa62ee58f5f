// OperationQueue as a scheduler.

import Dispatch
import Foundation
import StreamsCore

extension OperationQueue: Scheduler {
    /// A time on the wall clock.
    public struct SchedulerTimeType: Strideable, Codable, Hashable, Sendable {
        /// The time as a date.
        public var date: Date

        /// Creates a time from a date.
        public init(_ date: Date) { self.date = date }

        public func distance(to other: SchedulerTimeType) -> Stride { Stride(other.date.timeIntervalSince(date)) }
        public func advanced(by n: Stride) -> SchedulerTimeType {
            SchedulerTimeType(date.addingTimeInterval(n.timeInterval))
        }

        /// A length of time in seconds.
        public struct Stride: SecondsStride {
            public var magnitude: TimeInterval

            /// Creates an interval in seconds.
            public init(_ timeInterval: TimeInterval) { magnitude = timeInterval }
        }
    }

    /// There are no options.
    public struct SchedulerOptions: Sendable {
        /// Creates an empty set of options.
        public init() {}
    }

    public var now: SchedulerTimeType { SchedulerTimeType(Date()) }
    public var minimumTolerance: SchedulerTimeType.Stride { 0 }

    /// Runs `action` as an operation. If the queue runs several operations concurrently, their order is undefined.
    public func schedule(options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void) {
        addOperation { action() }
    }

    public func schedule(
        after date: SchedulerTimeType, tolerance: SchedulerTimeType.Stride, options: SchedulerOptions?,
        _ action: @escaping @Sendable () -> Void
    ) {
        DispatchQueue.global().asyncAfter(deadline: deadline(date)) { [self] in addOperation { action() } }
    }

    public func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, tolerance: SchedulerTimeType.Stride,
        options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable {
        let source = DispatchSource.makeTimerSource()
        let running = Unchecked(source)
        source.schedule(
            deadline: deadline(date), repeating: interval.timeInterval,
            leeway: DispatchQueue.SchedulerTimeType.Stride.seconds(tolerance.timeInterval).timeInterval)
        source.setEventHandler { [self] in
            // Actions that are still queued when the timer is cancelled do not run.
            addOperation { if !running.value.isCancelled { action() } }
        }
        source.activate()
        return AnyCancellable { running.value.cancel() }
    }

    private func deadline(_ date: SchedulerTimeType) -> DispatchTime {
        .now() + max(date.date.timeIntervalSinceNow, 0)
    }
}
