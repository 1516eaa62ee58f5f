// SecondsStride: the common part of RunLoop and OperationQueue, which use the wall clock and count in seconds.

import Foundation
import StreamsCore

/// A length of time in seconds; may be negative. A literal is a number of seconds too.
///
/// Only `RunLoop.SchedulerTimeType.Stride` and `OperationQueue.SchedulerTimeType.Stride` should conform to this
/// protocol.
public protocol SecondsStride: SchedulerTimeIntervalConvertible, Comparable, SignedNumeric, ExpressibleByFloatLiteral,
    Codable, Hashable, Sendable
where Magnitude == TimeInterval, IntegerLiteralType == TimeInterval, FloatLiteralType == TimeInterval {
    /// In seconds.
    var magnitude: TimeInterval { get set }
    /// Creates an interval in seconds.
    init(_ timeInterval: TimeInterval)
}

extension SecondsStride {
    /// In seconds.
    public var timeInterval: TimeInterval { magnitude }

    /// Creates an interval in seconds.
    public init(integerLiteral value: TimeInterval) { self.init(value) }
    /// Creates an interval in seconds.
    public init(floatLiteral value: TimeInterval) { self.init(value) }
    public init?<T: BinaryInteger>(exactly source: T) {
        guard let value = TimeInterval(exactly: source) else { return nil }
        self.init(value)
    }

    /// Creates an interval in seconds.
    public static func seconds(_ s: Int) -> Self { Self(TimeInterval(s)) }
    /// Creates an interval in seconds.
    public static func seconds(_ s: Double) -> Self { Self(s) }
    /// Creates an interval in milliseconds.
    public static func milliseconds(_ ms: Int) -> Self { Self(TimeInterval(ms) / 1e3) }
    /// Creates an interval in microseconds.
    public static func microseconds(_ us: Int) -> Self { Self(TimeInterval(us) / 1e6) }
    /// Creates an interval in nanoseconds.
    public static func nanoseconds(_ ns: Int) -> Self { Self(TimeInterval(ns) / 1e9) }

    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.magnitude < rhs.magnitude }
    public static func + (lhs: Self, rhs: Self) -> Self { Self(lhs.magnitude + rhs.magnitude) }
    public static func - (lhs: Self, rhs: Self) -> Self { Self(lhs.magnitude - rhs.magnitude) }
    public static func * (lhs: Self, rhs: Self) -> Self { Self(lhs.magnitude * rhs.magnitude) }
    public static func += (lhs: inout Self, rhs: Self) { lhs = lhs + rhs }
    public static func -= (lhs: inout Self, rhs: Self) { lhs = lhs - rhs }
    public static func *= (lhs: inout Self, rhs: Self) { lhs = lhs * rhs }
}
