// What becomes of a value for which a subscriber's buffer has no room.

import ForebayWire
import Replay

extension Publishers {
    /// What happens to values that a subscriber has not asked for yet, when its buffer is full.
    public enum ReplayOverflow<Failure: Error> {
        /// The oldest value that waits is dropped.
        case dropOldest
        /// The arriving value is refused.
        case dropNewest
        /// The last value that waits gives way to the arriving one.
        case replaceNewest
        /// Only the newest value waits, whatever the capacity is.
        case latest
        /// What waits is delivered, and then this failure.
        case customError(@Sendable () -> Failure)
        /// Upstream is asked for no more than the slowest subscriber has room for, so that nothing is lost.
        case block

        /// The same as a buffer's strategy.
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

    /// What becomes of values when a buffer is full.
    public enum BufferingStrategy<Failure: Error> {
        /// The arriving value is refused.
        case dropNewest
        /// The oldest value in the buffer is dropped.
        case dropOldest
        /// What is buffered is delivered, and then this failure.
        case customError(@Sendable () -> Failure)
        /// The last value in the buffer gives way to the arriving one.
        case replaceNewest
    }
}
