// ReplayOverflow and BufferingStrategy: what happens to a value when a subscriber's buffer is full.

import ForebayWire
import Replay

extension Publishers {
    /// What happens to values for which a subscriber has no demand yet, when its buffer is full.
    public enum ReplayOverflow<Failure: Error> {
        /// The oldest waiting value is dropped.
        case dropOldest
        /// The arriving value is dropped.
        case dropNewest
        /// The newest waiting value is replaced with the arriving one.
        case replaceNewest
        /// Only the newest value waits, whatever the capacity.
        case latest
        /// The waiting values are delivered, followed by this failure.
        case customError(@Sendable () -> Failure)
        /// No more is requested from upstream than the slowest subscriber has room for, so that nothing is lost.
        case block

        /// Equivalent to a buffer's strategy.
        public init(_ strategy: BufferingStrategy<Failure>) {
            self =
                switch strategy {
                case .dropNewest: .dropNewest
                case .dropOldest: .dropOldest
                case .replaceNewest: .replaceNewest
                case .customError(let failure): .customError(failure)
                }
        }

        var policy: Overflow {
            switch self {
            case .dropOldest: .dropOldest
            case .dropNewest: .dropNewest
            case .replaceNewest: .replaceNewest
            case .latest: .latest
            case .customError: .fail
            case .block: .block
            }
        }
    }

    /// What happens to values when a buffer is full.
    public enum BufferingStrategy<Failure: Error> {
        /// The arriving value is dropped.
        case dropNewest
        /// The oldest value in the buffer is dropped.
        case dropOldest
        /// The buffered values are delivered, followed by this failure.
        case customError(@Sendable () -> Failure)
        /// The newest value in the buffer is replaced with the arriving one.
        case replaceNewest
    }
}
