// VirtualTime: times on a clock that a test advances.

import StreamsCore

/// A time, in nanoseconds since the scheduler's start.
public struct VirtualTime: Strideable, Hashable, Sendable, CustomStringConvertible {
    /// Nanoseconds since the scheduler's start.
    public var nanoseconds: Int

    /// Creates a time, in nanoseconds since the scheduler's start.
    public init(nanoseconds: Int) { self.nanoseconds = nanoseconds }

    /// The scheduler's start.
    public static let zero = VirtualTime(nanoseconds: 0)

    public func distance(to other: VirtualTime) -> Stride {
        .nanoseconds(other.nanoseconds - nanoseconds)
    }
    public func advanced(by stride: Stride) -> VirtualTime {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(stride.magnitude)
        return VirtualTime(nanoseconds: overflow ? (stride.magnitude > 0 ? .max : .min) : sum)
    }

    public var description: String { "\(Stride.nanoseconds(nanoseconds))" }

    /// A length of time. A literal is a number of seconds.
    public struct Stride: SchedulerTimeIntervalConvertible, Comparable, SignedNumeric, ExpressibleByFloatLiteral,
        Hashable, Sendable, CustomStringConvertible
    {
        /// In nanoseconds; may be negative.
        public var magnitude: Int

        private init(magnitude: Int) { self.magnitude = magnitude }
        public init(integerLiteral value: Int) { self = .seconds(value) }
        public init(floatLiteral value: Double) { self = .seconds(value) }
        public init?<T: BinaryInteger>(exactly source: T) {
            guard let value = Int(exactly: source) else { return nil }
            self = .seconds(value)
        }

        /// Creates an interval in seconds.
        public static func seconds(_ s: Int) -> Stride { Stride(magnitude: s * 1_000_000_000) }
        /// Creates an interval in seconds.
        public static func seconds(_ s: Double) -> Stride { Stride(magnitude: Int(s * 1_000_000_000)) }
        /// Creates an interval in milliseconds.
        public static func milliseconds(_ ms: Int) -> Stride { Stride(magnitude: ms * 1_000_000) }
        /// Creates an interval in microseconds.
        public static func microseconds(_ us: Int) -> Stride { Stride(magnitude: us * 1000) }
        /// Creates an interval in nanoseconds.
        public static func nanoseconds(_ ns: Int) -> Stride { Stride(magnitude: ns) }

        public static func < (lhs: Stride, rhs: Stride) -> Bool { lhs.magnitude < rhs.magnitude }
        public static func + (lhs: Stride, rhs: Stride) -> Stride { Stride(magnitude: lhs.magnitude + rhs.magnitude) }
        public static func - (lhs: Stride, rhs: Stride) -> Stride { Stride(magnitude: lhs.magnitude - rhs.magnitude) }
        /// Multiplies the two as numbers of seconds.
        public static func * (lhs: Stride, rhs: Stride) -> Stride {
            .seconds(Double(lhs.magnitude) * Double(rhs.magnitude) / 1e18)
        }
        public static func += (lhs: inout Stride, rhs: Stride) { lhs = lhs + rhs }
        public static func -= (lhs: inout Stride, rhs: Stride) { lhs = lhs - rhs }
        public static func *= (lhs: inout Stride, rhs: Stride) { lhs = lhs * rhs }

        public var description: String { "\(Double(magnitude) / 1_000_000_000) s" }
    }
}
