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
    /// Whether messages were accepted since the last acknowledgement.
    var hasPendingAcknowledgement = false
    /// Its index in its topic's list of channels.
    var place = -1
    /// Its position in the queue for credit.
    var turn = CreditLine.Turn.none
    /// Its position among the topic's reservations.
    var reservation: TurnQueue<Reservations.Entry>.Ticket?

    init(_ key: StreamKey, _ request: PublishRequest, topic: Topic) {
        self.key = key
        self.topic = topic
        options = request.options
        connection = request.connection
        state = request.complete ? .complete : .open
        first = request.message.count > 0 ? .parked : .awaited
    }

    var isParked: Bool { first == .parked }
    var isComplete: Bool { if case .complete = state { true } else { false } }
    var isRemoved: Bool { if case .removed = state { true } else { false } }
    var wantsCredit: Bool { if case .open = state { !isParked } else { false } }
}
