// TopicPosition: where a subscription stands in its topic, over any number of connections. No I/O: it says where to
// begin, and is told what came.

import ForebayWire

/// The place of a subscription in its topic, so that it can go on where a lost connection left it.
public struct TopicPosition: Sendable {
    /// What a message says of those before it.
    public enum Arrival: Equatable, Sendable {
        /// Nothing is missing.
        case next
        /// It came before.
        case again
        /// Messages before it were lost; nil: nobody knows how many.
        case behind(UInt64?)
        /// Some before it may have been lost while there was no connection.
        case uncertain
        /// The topic restarted, after the epoch `previous`; what was still to come of that is lost.
        case anew(previous: UInt64)
    }

    private let asked: SubscribeOptions.Start
    /// The message that comes next.
    private var place: (epoch: UInt64, next: UInt64)?
    /// A connection was lost while no message had come that told the place.
    private var isUncertain = false

    /// - Parameter start: where the subscription was to begin at first.
    public init(_ start: SubscribeOptions.Start) {
        asked = start
        if case .from(let sequence, let epoch?) = start { place = (epoch, sequence) }
    }

    /// Where to begin on the next connection.
    public var start: SubscribeOptions.Start {
        place.map { .from($0.next, epoch: $0.epoch) } ?? asked
    }

    /// A message came.
    /// - Parameter dropped: how many the broker says were lost before it.
    public mutating func receive(epoch: UInt64, sequence: UInt64, dropped: UInt64) -> Arrival {
        if let place, place.epoch == epoch, sequence < place.next { return .again }
        let arrival = arrival(epoch, sequence, dropped)
        isUncertain = false
        place = (epoch, sequence == .max ? .max : sequence + 1)
        return arrival
    }

    private func arrival(_ epoch: UInt64, _ sequence: UInt64, _ dropped: UInt64) -> Arrival {
        guard let place else {
            if dropped > 0 { return .behind(isUncertain ? nil : dropped) }
            return isUncertain ? .uncertain : .next
        }
        guard place.epoch == epoch else { return .anew(previous: place.epoch) }
        let missing = max(dropped, sequence - place.next)
        return missing > 0 ? .behind(missing) : .next
    }

    /// The connection was lost.
    public mutating func lost() {
        // Whoever wants everything that is retained, or begins at a given place, gets the same again.
        switch asked {
        case .next, .last: isUncertain = place == nil
        case .all, .from: break
        }
    }
}
