// DispatchQueue as a scheduler.

import Dispatch
import StreamsCore

extension DispatchQueue: Scheduler {
    /// A time on the clock that stops while the machine sleeps.
    public struct SchedulerTimeType: Strideable, Codable, Hashable, Sendable {
        /// The time as a Dispatch type.
        public var dispatchTime: DispatchTime

        /// Creates a time on the queue's clock.
        public init(_ time: DispatchTime) { dispatchTime = time }

        public func distance(to other: SchedulerTimeType) -> Stride {
            let (from, to) = (dispatchTime.uptimeNanoseconds, other.dispatchTime.uptimeNanoseconds)
            // Times in the distant future exceed any length of time.
            let (isLater, figure) = to >= from ? (true, to - from) : (false, from - to)
            guard let length = Int(exactly: figure) else { return .nanoseconds(.max) }
            return .nanoseconds(isLater ? length : -length)
        }

        public func advanced(by n: Stride) -> SchedulerTimeType {
            SchedulerTimeType(n.magnitude == .max ? .distantFuture : dispatchTime + n.timeInterval)
        }

        public init(from decoder: any Decoder) throws {
            let nanoseconds = try decoder.singleValueContainer().decode(UInt64.self)
            dispatchTime = DispatchTime(uptimeNanoseconds: nanoseconds)
        }

        public func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(dispatchTime.uptimeNanoseconds)
        }

        public func hash(into hasher: inout Hasher) { hasher.combine(dispatchTime.rawValue) }

        /// A length of time. A literal is a number of seconds.
        public struct Stride: SchedulerTimeIntervalConvertible, Comparable, SignedNumeric, ExpressibleByFloatLiteral,
            Hashable, Codable, Sendable
        {
            /// In nanoseconds; may be negative. Values out of range become `Int.max` or `Int.min`.
            public var magnitude: Int

            /// The encoded name is the same as in Combine.
            private enum CodingKeys: String, CodingKey { case magnitude = "_nanoseconds" }

            private init(magnitude: Int) { self.magnitude = magnitude }

            private init(_ value: Int, of unit: Int) {
                let (product, overflow) = value.multipliedReportingOverflow(by: unit)
                magnitude = overflow ? (value < 0 ? .min : .max) : product
            }

            /// Creates an interval from a Dispatch type.
            public init(_ timeInterval: DispatchTimeInterval) {
                switch timeInterval {
                case .seconds(let s): self = .seconds(s)
                case .milliseconds(let ms): self = .milliseconds(ms)
                case .microseconds(let us): self = .microseconds(us)
                case .nanoseconds(let ns): self = .nanoseconds(ns)
                case .never: self = .nanoseconds(.max)
                @unknown default: self = .nanoseconds(.max)
                }
            }

            public init(integerLiteral value: Int) { self = .seconds(value) }
            public init(floatLiteral value: Double) { self = .seconds(value) }
            public init?<T: BinaryInteger>(exactly source: T) {
                guard let value = Int(exactly: source) else { return nil }
                self = .seconds(value)
            }

            /// The interval as a Dispatch type.
            public var timeInterval: DispatchTimeInterval { .nanoseconds(magnitude) }

            /// Creates an interval in seconds.
            public static func seconds(_ s: Int) -> Stride { Stride(s, of: 1_000_000_000) }
            /// Creates an interval in seconds.
            public static func seconds(_ s: Double) -> Stride {
                let nanoseconds = s * 1_000_000_000
                if nanoseconds >= Double(Int.max) { return Stride(magnitude: .max) }
                return Stride(magnitude: nanoseconds <= Double(Int.min) ? .min : Int(nanoseconds))
            }
            /// Creates an interval in milliseconds.
            public static func milliseconds(_ ms: Int) -> Stride { Stride(ms, of: 1_000_000) }
            /// Creates an interval in microseconds.
            public static func microseconds(_ us: Int) -> Stride { Stride(us, of: 1000) }
            /// Creates an interval in nanoseconds.
            public static func nanoseconds(_ ns: Int) -> Stride { Stride(magnitude: ns) }

            public static func < (lhs: Stride, rhs: Stride) -> Bool { lhs.magnitude < rhs.magnitude }
            public static func + (lhs: Stride, rhs: Stride) -> Stride {
                let (sum, overflow) = lhs.magnitude.addingReportingOverflow(rhs.magnitude)
                return Stride(magnitude: overflow ? (lhs.magnitude < 0 ? .min : .max) : sum)
            }
            public static func - (lhs: Stride, rhs: Stride) -> Stride {
                let (difference, overflow) = lhs.magnitude.subtractingReportingOverflow(rhs.magnitude)
                return Stride(magnitude: overflow ? (lhs.magnitude < 0 ? .min : .max) : difference)
            }
            /// Multiplies the two as numbers of seconds.
            public static func * (lhs: Stride, rhs: Stride) -> Stride {
                .seconds(Double(lhs.magnitude) * Double(rhs.magnitude) / 1e18)
            }
            public static func += (lhs: inout Stride, rhs: Stride) { lhs = lhs + rhs }
            public static func -= (lhs: inout Stride, rhs: Stride) { lhs = lhs - rhs }
            public static func *= (lhs: inout Stride, rhs: Stride) { lhs = lhs * rhs }
        }
    }

    /// Options for running a closure.
    public struct SchedulerOptions {
        /// The quality of service of the work.
        public var qos: DispatchQoS
        /// Flags for the work item.
        public var flags: DispatchWorkItemFlags
        /// A group that is entered until the closure has run.
        public var group: DispatchGroup?

        /// All defaults are those of Dispatch.
        public init(qos: DispatchQoS = .unspecified, flags: DispatchWorkItemFlags = [], group: DispatchGroup? = nil) {
            self.qos = qos
            self.flags = flags
            self.group = group
        }
    }

    public var now: SchedulerTimeType { SchedulerTimeType(.now()) }
    public var minimumTolerance: SchedulerTimeType.Stride { .nanoseconds(0) }

    public func schedule(options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void) {
        let options = options ?? SchedulerOptions()
        async(group: options.group, qos: options.qos, flags: options.flags) { action() }
    }

    /// Dispatch accepts no tolerance for a single closure and is as accurate as possible.
    public func schedule(
        after date: SchedulerTimeType, tolerance: SchedulerTimeType.Stride, options: SchedulerOptions?,
        _ action: @escaping @Sendable () -> Void
    ) {
        let options = options ?? SchedulerOptions()
        let group = options.group
        group?.enter()
        asyncAfter(deadline: date.dispatchTime, qos: options.qos, flags: options.flags) {
            action()
            group?.leave()
        }
    }

    public func schedule(
        after date: SchedulerTimeType, interval: SchedulerTimeType.Stride, tolerance: SchedulerTimeType.Stride,
        options: SchedulerOptions?, _ action: @escaping @Sendable () -> Void
    ) -> any Cancellable {
        let options = options ?? SchedulerOptions()
        let source = DispatchSource.makeTimerSource(queue: self)
        source.schedule(
            deadline: date.dispatchTime, repeating: interval.timeInterval, leeway: tolerance.timeInterval)
        source.setEventHandler(qos: options.qos, flags: options.flags) { action() }
        source.activate()
        let running = Unchecked(source)
        return AnyCancellable { running.value.cancel() }
    }
}
