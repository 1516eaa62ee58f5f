// RunLoop as a scheduler.

import Foundation
import StreamsCore

extension RunLoop: Scheduler {
    public typealias SchedulerTimeType = SchedulerDate

    /// There is nothing to choose.
    public struct SchedulerOptions: Sendable {
        public init() {}
    }

    public var now: SchedulerDate { SchedulerDate(Date()) }
    public var minimumTolerance: SchedulerDate.Stride { 0 }

    /// Carries out `action` when the loop runs in its default mode.
    public func schedule(options: SchedulerOptions?, _ action: @escaping () -> Void) {
        let action = Unchecked(action)
        perform { action.value() }
        // Foundation on Linux does not wake a loop for what it is to perform, but for a timer.
        if self !== RunLoop.current {
            add(Timer(fire: .distantPast, interval: 0, repeats: false) { _ in }, forMode: .default)
        }
    }

    public func schedule(
        after date: SchedulerDate, tolerance: SchedulerDate.Stride, options: SchedulerOptions?,
        _ action: @escaping () -> Void
    ) {
        let action = Unchecked(action)
        let timer = Timer(fire: date.date, interval: 0, repeats: false) { _ in action.value() }
        timer.tolerance = tolerance.timeInterval
        add(timer, forMode: .default)
    }

    public func schedule(
        after date: SchedulerDate, interval: SchedulerDate.Stride, tolerance: SchedulerDate.Stride,
        options: SchedulerOptions?, _ action: @escaping () -> Void
    ) -> any Cancellable {
        let action = Unchecked(action)
        let timer = Timer(fire: date.date, interval: interval.timeInterval, repeats: true) { _ in action.value() }
        timer.tolerance = tolerance.timeInterval
        add(timer, forMode: .default)
        let running = Unchecked(timer)
        return AnyCancellable { running.value.invalidate() }
    }
}
