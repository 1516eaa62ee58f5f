// PatternPosition: the positions of a subscription to a pattern in its topics, over any number of connections, and
// SubscriptionPosition: the position of any subscription. No I/O.
//
// The broker cannot resume such a subscription by positions. The next subscription begins at the time of the newest
// message; what is then received again is recognized by its sequence, and what is missing by a jump of the sequences.

import ForebayWire

/// The positions of a subscription to a pattern, so that it can continue after a lost connection.
struct PatternPosition: Sendable {
    private struct Place {
        var epoch: UInt64
        /// The sequence of the topic's next message.
        var next: UInt64
        /// `losses` when the last message was received.
        var losses: Int
    }

    /// Topics whose positions are kept; the broker's default for the topics that match. Beyond that, others are
    /// forgotten: their next message counts as the first.
    static let mostTopics = 10_000

    private let asked: SubscribeOptions.Start
    private var places: [String: Place] = [:]
    /// The latest timestamp of all messages, in nanoseconds since 1970.
    private(set) var newest: Int64?
    /// Whether the last message was the first of its topic since a connection was lost.
    private(set) var isBack = false
    /// Lost connections.
    private var losses = 0
    /// Whether messages of topics without a position may have been lost.
    private var isUncertain = false

    init(_ start: SubscribeOptions.Start) { asked = start }

    /// The number of topics whose positions are kept.
    var topicCount: Int { places.count }

    /// Where to begin on the next connection.
    var start: SubscribeOptions.Start { newest.map { .since(.at(max(0, $0))) } ?? asked }

    /// Notes that a message was received.
    mutating func receive(_ info: MessageInfo) -> TopicPosition.Arrival {
        let topic = info.topic ?? ""
        let place = places[topic]
        if let place, place.epoch == info.epoch, info.sequence < place.next { return .again }
        let arrival = arrival(info, place)
        isBack = losses > place?.losses ?? 0
        if place == nil, places.count >= Self.mostTopics { places.remove(at: places.startIndex) }
        let next = info.sequence == .max ? .max : info.sequence + 1
        places[topic] = Place(epoch: info.epoch, next: next, losses: losses)
        newest = max(newest ?? .min, info.timestamp)
        return arrival
    }

    private func arrival(_ info: MessageInfo, _ place: Place?) -> TopicPosition.Arrival {
        guard let place else {
            if info.dropped > 0 { return .behind(isUncertain ? nil : info.dropped) }
            return isUncertain && info.sequence > 1 ? .uncertain : .next
        }
        if place.epoch != info.epoch {
            // On one connection, the previous topic of this name was received until its end.
            if place.losses != losses { return .restarted(previous: place.epoch) }
            return info.dropped > 0 ? .behind(info.dropped) : .next
        }
        let missing = max(info.dropped, info.sequence - place.next)
        return missing > 0 ? .behind(missing) : .next
    }

    /// Notes that the connection was lost.
    mutating func lost() {
        losses += 1
        switch asked {
        case .next, .last, .since(.ago): isUncertain = true
        // If nothing has been received, the same messages are requested again.
        case .all, .from, .since(.at): isUncertain = isUncertain || newest != nil
        }
    }
}

/// The position of a subscription to a topic or to a pattern, so that it can continue after a lost connection.
public struct SubscriptionPosition: Sendable {
    private var topic: TopicPosition
    /// For a pattern, used instead of `topic`.
    private var pattern: PatternPosition?

    /// - Parameters:
    ///   - start: where the subscription first wanted to begin.
    ///   - ofPattern: whether the subscription is to a pattern.
    public init(_ start: SubscribeOptions.Start, ofPattern: Bool) {
        topic = TopicPosition(start)
        pattern = ofPattern ? PatternPosition(start) : nil
    }

    /// Where to begin on the next connection.
    public var start: SubscribeOptions.Start { pattern?.start ?? topic.start }

    /// The latest timestamp of all messages of a pattern, in nanoseconds since 1970; nil if there is none.
    public var newest: Int64? { pattern?.newest }

    /// For a pattern, whether the last message was the first of its topic since a connection was lost.
    public var isBack: Bool { pattern?.isBack ?? false }

    /// Notes that the subscription has begun, before its first message.
    public mutating func opened(_ opening: OpeningPosition) { topic.opened(opening) }

    /// Notes that a message was received. For a pattern, what is known counts for the message's topic.
    public mutating func receive(_ info: MessageInfo) -> TopicPosition.Arrival {
        pattern?.receive(info) ?? topic.receive(epoch: info.epoch, sequence: info.sequence, dropped: info.dropped)
    }

    /// Notes that the connection was lost.
    public mutating func lost() {
        topic.lost()
        pattern?.lost()
    }
}
