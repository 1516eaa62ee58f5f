// TopicPosition: a subscription's position in its topic, over any number of connections. No I/O: the caller passes each
// message, and asks where the next subscription has to begin.

import ForebayWire

/// The position of a subscription in its topic, so that it can resume after a lost connection.
public struct TopicPosition: Sendable {
    /// What a message implies about earlier ones.
    public enum Arrival: Equatable, Sendable {
        /// Nothing is missing.
        case next
        /// The message was already received.
        case again
        /// Messages before the received message were lost; nil if their number is unknown.
        case behind(UInt64?)
        /// Some messages before the received message may have been lost while there was no connection.
        case uncertain
        /// The topic restarted after the epoch `previous`, whose remaining messages are lost.
        case restarted(previous: UInt64)
    }

    private let asked: SubscribeOptions.Start
    /// The position of the next message.
    private var place: (epoch: UInt64, next: UInt64)?
    /// Whether a connection was lost before the position was known, and no message has reported that yet.
    private var isUncertain = false

    /// - Parameter start: where the subscription first wanted to begin.
    public init(_ start: SubscribeOptions.Start) {
        asked = start
        if case .from(let sequence, let epoch?) = start { place = (epoch, sequence) }
    }

    /// Where to begin on the next connection.
    public var start: SubscribeOptions.Start {
        place.map { .from($0.next, epoch: $0.epoch) } ?? asked
    }

    /// Notes that the subscription has begun, before its first message.
    public mutating func opened(_ opening: OpeningPosition) {
        guard place == nil else { return }
        var next = opening.next
        // If the requested message is no longer retained, the first message reports that, on any connection.
        if case .from(let sequence, _) = asked { next = min(sequence, next) }
        place = (opening.epoch, next)
    }

    /// Notes that a message was received.
    /// - Parameter dropped: how many messages the broker reports as lost before this message.
    public mutating func receive(epoch: UInt64, sequence: UInt64, dropped: UInt64) -> Arrival {
        if let place, place.epoch == epoch, sequence < place.next { return .again }
        let arrival = arrival(epoch, sequence, dropped)
        isUncertain = false
        place = (epoch, sequence == .max ? .max : sequence + 1)
        return arrival
    }

    private func arrival(_ epoch: UInt64, _ sequence: UInt64, _ dropped: UInt64) -> Arrival {
        if let place, place.epoch != epoch { return .restarted(previous: place.epoch) }
        let missing = place.map { max(dropped, sequence - $0.next) } ?? dropped
        if missing > 0 { return .behind(isUncertain ? nil : missing) }
        return isUncertain ? .uncertain : .next
    }

    /// Notes that the connection was lost.
    public mutating func lost() {
        if place == nil, !asked.isRepeatable { isUncertain = true }
    }
}

extension SubscribeOptions.Start {
    /// Whether a subscription that begins here again receives the same messages again: all that are retained, or those
    /// from a given position or time.
    var isRepeatable: Bool {
        switch self {
        case .all, .from, .since(.at): true
        case .next, .last, .since(.ago): false
        }
    }
}
