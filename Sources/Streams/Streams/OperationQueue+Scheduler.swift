// OperationQueue as a scheduler.

import Dispatch
import Foundation
import StreamsCore

extension OperationQueue: Scheduler {
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

    /// Carries out `action` as an operation. In a queue that carries out several at once, they have no order.
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
            // What waits in the queue when it is cancelled is not carried out any more.
            addOperation { if !running.value.isCancelled { action() } }
        }
        source.activate()
        return AnyCancellable { running.value.cancel() }
    }

    private func deadline(_ date: SchedulerTimeType) -> DispatchTime {
        .now() + max(date.date.timeIntervalSinceNow, 0)
    }
}
