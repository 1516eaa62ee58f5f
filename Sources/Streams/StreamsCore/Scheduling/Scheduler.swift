// Scheduler: when and where a closure is carried out.

/// A length of time that can be told in units of time.
public protocol SchedulerTimeIntervalConvertible {
    /// That many seconds.
    static func seconds(_ s: Int) -> Self
    /// That many seconds.
    static func seconds(_ s: Double) -> Self
    /// That many milliseconds.
    static func milliseconds(_ ms: Int) -> Self
    /// That many microseconds.
    static func microseconds(_ us: Int) -> Self
    /// That many nanoseconds.
    static func nanoseconds(_ ns: Int) -> Self
}

/// Carries out closures, as soon as it can or at a time of its clock.
public protocol Scheduler<SchedulerTimeType>: SendableMetatype {
    /// A moment on the scheduler's clock.
    associatedtype SchedulerTimeType: Strideable, Sendable
    where SchedulerTimeType.Stride: SchedulerTimeIntervalConvertible
    /// How something is to be carried out, as far as the scheduler leaves a choice.
    associatedtype SchedulerOptions

    /// The moment it is.
    var now: SchedulerTimeType { get }
    /// The least inaccuracy that may be asked for.
    var minimumTolerance: SchedulerTimeType.Stride { get }

    /// Carries out `action` as soon as it can.
    func schedule(options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void)
    /// Carries out `action` when it is `date`, or later by no more than about `tolerance`.
    func schedule(
        after date: SchedulerTimeType, tolerance: SchedulerTimeType.Stride, options: SchedulerOptions?,
        _ action: @escaping @Sendable () -> Void)
    /// Carries out `action` when it is `date`, and then each time that `interval` has passed.
    /// - Returns: what ends the repetition when it is cancelled.
    func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, tolerance: SchedulerTimeType.Stride,
        options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable
}

extension Scheduler {
    /// Carries out `action` as soon as it can.
    public func schedule(_ action: @escaping @Sendable () -> Void) { schedule(options: nil, action) }

    /// Carries out `action` when it is `date`, as accurately as it can.
    public func schedule(after date: SchedulerTimeType, _ action: @escaping @Sendable () -> Void) {
        schedule(after: date, tolerance: minimumTolerance, options: nil, action)
    }

    /// Carries out `action` when it is `date`, or later by no more than about `tolerance`.
    public func schedule(
        after date: SchedulerTimeType, tolerance: SchedulerTimeType.Stride, _ action: @escaping @Sendable () -> Void
    ) {
        schedule(after: date, tolerance: tolerance, options: nil, action)
    }

    /// Carries out `action` when it is `date`, and then each time that `interval` has passed, as accurately as it can.
    /// - Returns: what ends the repetition when it is cancelled.
    public func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable {
        schedule(after: date, interval: interval, tolerance: minimumTolerance, options: nil, action)
    }

    /// Carries out `action` when it is `date`, and then each time that `interval` has passed.
    /// - Returns: what ends the repetition when it is cancelled.
    public func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, tolerance: SchedulerTimeType.Stride,
        _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable {
        schedule(after: date, interval: interval, tolerance: tolerance, options: nil, action)
    }
}
