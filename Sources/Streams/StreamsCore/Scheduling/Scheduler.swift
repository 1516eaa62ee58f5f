// Scheduler: determines when and where a closure runs.

/// A length of time that can be expressed in units of time.
public protocol SchedulerTimeIntervalConvertible {
    /// Creates an interval in seconds.
    static func seconds(_ s: Int) -> Self
    /// Creates an interval in seconds.
    static func seconds(_ s: Double) -> Self
    /// Creates an interval in milliseconds.
    static func milliseconds(_ ms: Int) -> Self
    /// Creates an interval in microseconds.
    static func microseconds(_ us: Int) -> Self
    /// Creates an interval in nanoseconds.
    static func nanoseconds(_ ns: Int) -> Self
}

/// Runs closures, as soon as possible or at a time of its clock.
public protocol Scheduler<SchedulerTimeType>: SendableMetatype {
    /// A moment on the scheduler's clock.
    associatedtype SchedulerTimeType: Strideable, Sendable
    where SchedulerTimeType.Stride: SchedulerTimeIntervalConvertible
    /// Options for running a closure.
    associatedtype SchedulerOptions

    /// The current time.
    var now: SchedulerTimeType { get }
    /// The smallest tolerance that can be requested.
    var minimumTolerance: SchedulerTimeType.Stride { get }

    /// Runs `action` as soon as possible.
    func schedule(options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void)
    /// Runs `action` at `date`, or later by about `tolerance` at most.
    func schedule(
        after date: SchedulerTimeType, tolerance: SchedulerTimeType.Stride, options: SchedulerOptions?,
        _ action: @escaping @Sendable () -> Void)
    /// Runs `action` at `date`, and then repeatedly after each `interval`.
    /// - Returns: a cancellable that stops the repetition when it is cancelled.
    func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, tolerance: SchedulerTimeType.Stride,
        options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable
}

extension Scheduler {
    /// Runs `action` as soon as possible.
    public func schedule(_ action: @escaping @Sendable () -> Void) { schedule(options: nil, action) }

    /// Runs `action` at `date`, with the minimum tolerance.
    public func schedule(after date: SchedulerTimeType, _ action: @escaping @Sendable () -> Void) {
        schedule(after: date, tolerance: minimumTolerance, options: nil, action)
    }

    /// Runs `action` at `date`, or later by about `tolerance` at most.
    public func schedule(
        after date: SchedulerTimeType, tolerance: SchedulerTimeType.Stride, _ action: @escaping @Sendable () -> Void
    ) {
        schedule(after: date, tolerance: tolerance, options: nil, action)
    }

    /// Runs `action` at `date`, and then repeatedly after each `interval`, with the minimum tolerance.
    /// - Returns: a cancellable that stops the repetition when it is cancelled.
    public func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable {
        schedule(after: date, interval: interval, tolerance: minimumTolerance, options: nil, action)
    }

    /// Runs `action` at `date`, and then repeatedly after each `interval`.
    /// - Returns: a cancellable that stops the repetition when it is cancelled.
    public func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, tolerance: SchedulerTimeType.Stride,
        _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable {
        schedule(after: date, interval: interval, tolerance: tolerance, options: nil, action)
    }
}
