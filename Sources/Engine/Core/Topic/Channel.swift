// Channel: one publishing channel as its topic's owner sees it.

import Replay

final class Channel {
    enum State {
        case open
        /// The publisher's half is complete; the channel ends when nothing of it is parked or uncommitted.
        case complete
        /// Its topic has removed it. The refusal is sent once everything of the channel is committed.
        case removed(Refusal?)
    }

    /// The message that opens a channel needs no credit.
    enum FirstMessage {
        /// The channel was opened without it.
        case awaited
        /// It waits for room.
        case parked
        case taken
    }

    let key: StreamKey
    /// Held until the channel is removed from it.
    let topic: Topic
    let options: PublishOptions
    let connection: ConnectionID
    var state: State
    var first: FirstMessage
    /// Granted and not yet used.
    var outstanding = 0
    /// The part of `outstanding` that room is reserved for, until `reservedUntil`; one more with a first message that
    /// is yet to come.
    var reserved = 0
    var reservedUntil: UInt64 = 0
    var accepted: UInt64 = 0
    /// In the log and not yet committed.
    var uncommitted = 0
    var last = SequenceNumber(0)
    /// Accepted since the last acknowledgement was sent.
    var hasNews = false
    /// Its place in the list of its topic.
    var place = -1
    /// Its turn to be granted credit.
    var turn = CreditLine.Turn.none
    /// Its place among the topic's reservations.
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
