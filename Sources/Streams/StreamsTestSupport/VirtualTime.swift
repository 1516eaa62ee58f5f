// VirtualTime: the moments of a clock that stands still until it is told to go on.

import StreamsCore

/// A moment, or on its own a number of nanoseconds since the clock began.
public struct VirtualTime: Strideable, Hashable, Sendable, CustomStringConvertible {
    /// Nanoseconds since the scheduler's beginning.
    public var nanoseconds: Int

    /// A moment, in nanoseconds since the scheduler's beginning.
    public init(nanoseconds: Int) { self.nanoseconds = nanoseconds }

    /// When the clock began.
    public static let zero = VirtualTime(nanoseconds: 0)

    public func distance(to other: VirtualTime) -> Stride {
        .nanoseconds(other.nanoseconds - nanoseconds)
    }
    public func advanced(by stride: Stride) -> VirtualTime {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(stride.magnitude)
        return VirtualTime(nanoseconds: overflow ? (stride.magnitude > 0 ? .max : .min) : sum)
    }

    public var description: String { "\(Stride.nanoseconds(nanoseconds))" }

    /// A length of time. A literal tells seconds.
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

        /// That many seconds.
        public static func seconds(_ s: Int) -> Stride { Stride(magnitude: s * 1_000_000_000) }
        /// That many seconds.
        public static func seconds(_ s: Double) -> Stride { Stride(magnitude: Int(s * 1_000_000_000)) }
        /// That many milliseconds.
        public static func milliseconds(_ ms: Int) -> Stride { Stride(magnitude: ms * 1_000_000) }
        /// That many microseconds.
        public static func microseconds(_ us: Int) -> Stride { Stride(magnitude: us * 1000) }
        /// That many nanoseconds.
        public static func nanoseconds(_ ns: Int) -> Stride { Stride(magnitude: ns) }

        public static func < (lhs: Stride, rhs: Stride) -> Bool { lhs.magnitude < rhs.magnitude }
        public static func + (lhs: Stride, rhs: Stride) -> Stride { Stride(magnitude: lhs.magnitude + rhs.magnitude) }
        public static func - (lhs: Stride, rhs: Stride) -> Stride { Stride(magnitude: lhs.magnitude - rhs.magnitude) }
        /// As many seconds as the product of the two in seconds has.
        public static func * (lhs: Stride, rhs: Stride) -> Stride {
            .seconds(Double(lhs.magnitude) * Double(rhs.magnitude) / 1e18)
        }
        public static func += (lhs: inout Stride, rhs: Stride) { lhs = lhs + rhs }
        public static func -= (lhs: inout Stride, rhs: Stride) { lhs = lhs - rhs }
        public static func *= (lhs: inout Stride, rhs: Stride) { lhs = lhs * rhs }

        public var description: String { "\(Double(magnitude) / 1_000_000_000) s" }
    }
}
