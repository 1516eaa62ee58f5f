// What RunLoop and OperationQueue have in common: their clock is that of the day, and tells seconds.

import Foundation
import StreamsCore

/// A length of time in seconds; may be negative. A literal tells seconds too.
///
/// There to be conformed to by `RunLoop.SchedulerTimeType.Stride` and `OperationQueue.SchedulerTimeType.Stride`.
public protocol SecondsStride: SchedulerTimeIntervalConvertible, Comparable, SignedNumeric, ExpressibleByFloatLiteral,
    Codable, Hashable, Sendable
where Magnitude == TimeInterval, IntegerLiteralType == TimeInterval, FloatLiteralType == TimeInterval {
    /// In seconds.
    var magnitude: TimeInterval { get set }
    /// A number of seconds.
    init(_ timeInterval: TimeInterval)
}

extension SecondsStride {
    /// In seconds.
    public var timeInterval: TimeInterval { magnitude }

    /// A number of seconds.
    public init(integerLiteral value: TimeInterval) { self.init(value) }
    /// A number of seconds.
    public init(floatLiteral value: TimeInterval) { self.init(value) }
    public init?<T: BinaryInteger>(exactly source: T) {
        guard let value = TimeInterval(exactly: source) else { return nil }
        self.init(value)
    }

    /// That many seconds.
    public static func seconds(_ s: Int) -> Self { Self(TimeInterval(s)) }
    /// That many seconds.
    public static func seconds(_ s: Double) -> Self { Self(s) }
    /// That many milliseconds.
    public static func milliseconds(_ ms: Int) -> Self { Self(TimeInterval(ms) / 1e3) }
    /// That many microseconds.
    public static func microseconds(_ us: Int) -> Self { Self(TimeInterval(us) / 1e6) }
    /// That many nanoseconds.
    public static func nanoseconds(_ ns: Int) -> Self { Self(TimeInterval(ns) / 1e9) }

    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.magnitude < rhs.magnitude }
    public static func + (lhs: Self, rhs: Self) -> Self { Self(lhs.magnitude + rhs.magnitude) }
    public static func - (lhs: Self, rhs: Self) -> Self { Self(lhs.magnitude - rhs.magnitude) }
    public static func * (lhs: Self, rhs: Self) -> Self { Self(lhs.magnitude * rhs.magnitude) }
    public static func += (lhs: inout Self, rhs: Self) { lhs = lhs + rhs }
    public static func -= (lhs: inout Self, rhs: Self) { lhs = lhs - rhs }
    public static func *= (lhs: inout Self, rhs: Self) { lhs = lhs * rhs }
}
