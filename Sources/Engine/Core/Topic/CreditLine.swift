// CreditLine: the channels of one topic that want credit, in order. Channels without credit come first, followed by
// those that have used half of their share. A channel is queued when it uses credit, so idle channels cost nothing,
// however many there are.

struct CreditLine {
    /// A channel's position in one of the two queues.
    enum Turn {
        case none
        case starved(TurnQueue<Channel>.Ticket)
        case low(TurnQueue<Channel>.Ticket)
    }

    private var starved = TurnQueue<Channel>()
    private var low = TurnQueue<Channel>()
    /// Channels with at most this much credit want some.
    private(set) var threshold = 0

    /// The number of channels without credit.
    var starvedCount: Int { starved.count }
    var count: Int { starved.count + low.count }

    /// Updates a channel after its credit, or its wish for credit, has changed.
    mutating func update(_ channel: Channel) {
        let isStarved = channel.wantsCredit && channel.outstanding == 0
        let isLow = channel.wantsCredit && !isStarved && channel.outstanding <= threshold
        switch channel.turn {
        case .none where !isStarved && !isLow: return
        case .starved where isStarved: return
        case .low where isLow: return
        case .none, .starved, .low: leave(channel)
        }
        if isStarved { channel.turn = .starved(starved.append(channel)) }
        if isLow { channel.turn = .low(low.append(channel)) }
    }

    /// Removes and returns the next channel with at most `threshold` credit.
    mutating func next(_ threshold: Int) -> Channel? {
        self.threshold = threshold
        while let channel = starved.first ?? low.first {
            leave(channel)
            if channel.outstanding <= threshold { return channel }
        }
        return nil
    }

    private mutating func leave(_ channel: Channel) {
        switch channel.turn {
        case .none: break
        case .starved(let ticket): starved.withdraw(ticket)
        case .low(let ticket): low.withdraw(ticket)
        }
        channel.turn = .none
    }
}

/// The reservations of one topic's channels, in the order in which they end.
struct Reservations {
    typealias Entry = (channel: Channel, until: UInt64)
    private var entries = TurnQueue<Entry>()

    /// When the first of them may end.
    var deadline: UInt64? { entries.first?.until }

    /// Adds a reservation until `channel.reservedUntil`, which is never earlier than that of any other.
    mutating func note(_ channel: Channel) {
        guard channel.reservation == nil else { return }
        channel.reservation = entries.append((channel, channel.reservedUntil))
    }

    /// Removes a channel's reservation.
    mutating func withdraw(_ channel: Channel) {
        if let place = channel.reservation { entries.withdraw(place) }
        channel.reservation = nil
    }

    /// The next channel whose reservation has ended; nil if there is none.
    mutating func takeEnded(now: UInt64) -> Channel? {
        while let (channel, until) = entries.first, until <= now {
            _ = entries.popFirst()
            channel.reservation = nil
            guard channel.reserved > 0 else { continue }
            if channel.reservedUntil <= now { return channel }
            note(channel)
        }
        return nil
    }
}
