// Channel: a publishing channel, from the point of view of its topic's owner.

import Replay

final class Channel {
    enum State {
        case open
        /// The publisher's half is complete; the channel ends when none of its messages is parked or uncommitted.
        case complete
        /// Removed by its topic. The refusal is sent once all messages of the channel are committed.
        case removed(Refusal?)
    }

    /// The first message of a channel needs no credit.
    enum FirstMessage {
        /// It has not arrived.
        case awaited
        /// It waits for room.
        case parked
        case taken
    }

    let key: StreamKey
    /// Referenced until the topic removes the channel.
    let topic: Topic
    let options: PublishOptions
    let connection: ConnectionID
    var state: State
    var first: FirstMessage
    /// Credit granted and not yet used.
    var outstanding = 0
    /// The part of `outstanding` for which room is reserved until `reservedUntil`; one more while the first message is
    /// still to come.
    var reserved = 0
    var reservedUntil: UInt64 = 0
    var accepted: UInt64 = 0
    /// Messages in the log and not yet committed.
    var uncommitted = 0
    var last = SequenceNumber(0)
    /// Whether messages were accepted since the last acknowledgement, and whether any of them is a duplicate.
    var hasPendingAcknowledgement = false
    var hasPendingDuplicate = false
    /// Its index in its topic's list of channels.
    var place = -1
    /// Its position in the queue for credit.
    var turn = CreditLine.Turn.none
    /// Its position among the topic's reservations.
    var reservation: TurnQueue<Reservations.Entry>.Ticket?
    /// The ticket of its first message to a shared topic, whose messages of one channel stay in order.
    private var chain: PublishTicket?
    /// The number of its next message to a shared topic; nil if its messages are not numbered.
    private var nextShared: NumberedPublish?
    /// Nil if its messages are not numbered, or its topic is shared.
    let numbers: ChannelNumbers?

    init(_ key: StreamKey, _ request: PublishRequest, topic: Topic) {
        self.key = key
        self.topic = topic
        options = request.options
        connection = request.connection
        state = request.complete ? .complete : .open
        first = request.message.count > 0 ? .parked : .awaited
        nextShared = topic.isShared ? request.numbered : nil
        numbers = topic.isShared ? nil : request.numbered.map { ChannelNumbers($0) }
    }

    /// The ticket and the number of the channel's next message to a shared topic.
    func takeShared(_ ticket: PublishTicket) -> (chain: PublishTicket, number: NumberedPublish?) {
        let chain = chain ?? ticket
        self.chain = chain
        defer { nextShared = nextShared.map { NumberedPublish(publisher: $0.publisher, number: $0.number + 1) } }
        return (chain, nextShared)
    }

    var isParked: Bool { first == .parked }
    var isComplete: Bool { if case .complete = state { true } else { false } }
    var isRemoved: Bool { if case .removed = state { true } else { false } }
    var wantsCredit: Bool { if case .open = state { !isParked } else { false } }
}

/// The numbers of a channel's messages.
final class ChannelNumbers {
    let key: PublisherKey
    /// The number of the channel's next message.
    fileprivate(set) var next: UInt64
    /// The publisher in the topic's table. It is looked up for the channel's first message.
    fileprivate(set) var known: KnownPublisher?

    fileprivate init(_ first: NumberedPublish) {
        key = first.publisher
        next = first.number
    }

    /// From now on, the channel's messages are numbered by this publisher.
    func bind(_ publisher: KnownPublisher) { known = publisher }

    /// Whether the publisher is known and the number of the next message follows its last one.
    @inline(__always)
    var isNext: Bool { known.map { $0.last.number > 0 && next == $0.last.number + 1 } ?? false }

    /// `count` more messages were accepted.
    func advance(by count: Int) { next += UInt64(count) }
}
