// PatternPosition: the positions of a subscription to a pattern in its topics, over any number of connections, and
// SubscriptionPosition: the position of any subscription. No I/O.
//
// The next subscription continues in each topic at its position. If not all positions fit into a request, or if some
// were forgotten, the other topics begin at the time of the newest message; what is then received again is recognized
// by its sequence, and what is missing by a jump of the sequences. A broker that knows no positions ignores them, and
// then this holds for all topics.

import ForebayWire

/// The positions of a subscription to a pattern, so that it can continue after a lost connection.
struct PatternPosition: Sendable {
    private struct Place {
        var epoch: UInt64
        /// The sequence of the topic's next message.
        var next: UInt64
        /// `losses` when the last message was received.
        var losses: Int
        /// The latest timestamp of the topic's messages.
        var newest: Int64
        /// Earlier topics of this name whose messages may still arrive on this connection, oldest first: the broker
        /// delivers what waits of a deleted topic in turn with the new topic's messages.
        var former: [(epoch: UInt64, next: UInt64)] = []
    }

    /// Earlier topics of a name that are remembered.
    private static let mostFormer = 8

    /// Topics in a request; the broker's default for the topics that match. When there are positions in more than
    /// twice as many, only this many with the newest messages are kept: the next message of another topic counts as
    /// its first.
    static let mostTopics = 10_000
    /// Bytes of the positions in a request; the broker's default for a payload.
    static let mostBytes = 1 << 20

    private let asked: SubscribeOptions.Start
    private var places: [String: Place] = [:]
    /// The latest timestamp of all messages, in nanoseconds since 1970.
    private(set) var newest: Int64?
    /// The latest timestamp in topics whose positions were forgotten; nil if none was.
    private var forgotten: Int64?
    /// Whether the last message was the first of its topic since a connection was lost.
    private(set) var isBack = false
    /// Lost connections.
    private var losses = 0
    /// Whether messages of topics without a position may have been lost.
    private var isUncertain = false

    // The next request

    /// Where to continue, in the topics with the newest messages; empty once a message has arrived.
    private(set) var positions: [ResumePosition] = []
    /// Where the other topics begin.
    private(set) var start: SubscribeOptions.Start
    /// Whether the others begin where the subscription first wanted to, which repeats and loses nothing.
    private(set) var isComplete = true

    init(_ start: SubscribeOptions.Start) {
        asked = start
        self.start = start
    }

    /// The number of topics whose positions are kept.
    var topicCount: Int { places.count }

    /// Notes that a message was received.
    mutating func receive(_ info: MessageInfo) -> TopicPosition.Arrival {
        if !positions.isEmpty { positions = [] }
        let topic = info.topic ?? ""
        let place = places[topic]
        let next = info.sequence == .max ? .max : info.sequence + 1
        if let place, place.epoch == info.epoch, info.sequence < place.next { return .again }
        if let place, place.losses == losses, let late = place.former.firstIndex(where: { $0.epoch == info.epoch }) {
            let missing = max(info.dropped, info.sequence - min(info.sequence, place.former[late].next))
            places[topic]?.former[late].next = next
            isBack = false
            return missing > 0 ? .behind(missing) : .next
        }
        let arrival = arrival(info, place)
        isBack = losses > place?.losses ?? 0
        places[topic] = Place(
            epoch: info.epoch, next: next, losses: losses, newest: max(place?.newest ?? .min, info.timestamp),
            former: former(info, place))
        newest = max(newest ?? .min, info.timestamp)
        if places.count > 2 * Self.mostTopics { discardOldest() }
        return arrival
    }

    /// The earlier topics of a message's name whose messages may still arrive.
    private func former(_ info: MessageInfo, _ place: Place?) -> [(epoch: UInt64, next: UInt64)] {
        guard let place, place.losses == losses else { return [] }
        guard place.epoch != info.epoch else { return place.former }
        return place.former.suffix(Self.mostFormer - 1) + [(place.epoch, place.next)]
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
        if missing > 0 { return .behind(missing) }
        // What still waited of an earlier topic was lost with the connection.
        return place.losses != losses && !place.former.isEmpty ? .uncertain : .next
    }

    /// Discards half of the positions: those in topics without new messages.
    private mutating func discardOldest() {
        let sorted = newestFirst()
        forgotten = max(forgotten ?? .min, sorted[Self.mostTopics].value.newest)
        places = Dictionary(uniqueKeysWithValues: sorted.prefix(Self.mostTopics).map { ($0.key, $0.value) })
    }

    private func newestFirst() -> [Dictionary<String, Place>.Element] {
        places.sorted { $0.value.newest > $1.value.newest }
    }

    /// Notes that the connection was lost.
    mutating func lost() {
        losses += 1
        var left = Self.mostBytes - "{}".utf8.count
        positions = []
        for (topic, place) in newestFirst().prefix(Self.mostTopics) {
            let position = ResumePosition(topic: topic, epoch: place.epoch, sequence: place.next)
            left -= position.jsonSize
            guard left >= 0 else { break }
            positions.append(position)
        }
        findStart()
    }

    /// Notes that the broker refused the request. Returns whether to repeat it, now with half as many positions: the
    /// broker's limits may be smaller.
    mutating func refused(_ error: ClientError) -> Bool {
        guard !positions.isEmpty, let word = error.word, [.invalid, .tooLarge].contains(word) else {
            return false
        }
        positions.removeLast((positions.count + 1) / 2)
        findStart()
        return true
    }

    private mutating func findStart() {
        isComplete = positions.count == places.count && forgotten == nil && asked.isRepeatable
        isUncertain = isUncertain || !isComplete
        start = asked
        guard !isComplete, let newest else { return }
        // What was received of a forgotten topic cannot be recognized, so it must not be sent again.
        start = .since(.at(max(0, newest, (forgotten ?? .min) &+ 1)))
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

    /// Where to begin on the next connection, in topics without one of `positions`.
    public var start: SubscribeOptions.Start { pattern?.start ?? topic.start }

    /// For a pattern, where to continue in some topics on the next connection. Empty once a message has arrived there.
    public var positions: [ResumePosition] { pattern?.positions ?? [] }

    /// Whether all that the topics still hold is received on the next connection.
    public var isComplete: Bool { pattern?.isComplete ?? true }

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

    /// Notes that the broker refused to continue the subscription. Returns whether to repeat the request, which then
    /// has other `positions`, and possibly another `start`.
    public mutating func refused(_ error: ClientError) -> Bool { pattern?.refused(error) ?? false }
}
