// ChannelCredits: the credit of a topic's channels. It is granted from the topic's room, part of which it reserves for
// a while.

import Replay

struct ChannelCredits {
    /// Channels that want credit.
    var line = CreditLine()
    private var reservations = Reservations()

    /// Grants credit, up to its share, to a channel that wants some.
    /// - Parameters:
    ///   - share: messages that each channel may have now.
    ///   - most: messages that one channel may have at any time.
    ///   - free: messages for which there is room.
    /// - Returns: the credit and the room that it takes; nil if the channel has its share. It is queued again when it
    ///   uses some.
    mutating func grant(
        to channel: Channel, share: Int, most: Int, free: Int, of room: inout Room, now: UInt64
    ) -> (credit: Int, room: Int)? {
        // Earlier credit without a reservation counts against the share, so an idle channel does not accumulate credit.
        let target = Swift.min(most, share + channel.reserved)
        let count = Swift.min(target - Swift.max(channel.outstanding, channel.reserved), free)
        guard count > 0 else { return nil }
        // A first message that is still to come uses no credit but takes room. If there is room for only one, it is
        // granted anyway: a publisher that waits for credit before its first message would wait forever.
        let isFirst = channel.first == .awaited && channel.reserved <= channel.outstanding && room.horizon != nil
        let credit = isFirst && count > 1 ? count - 1 : count
        channel.outstanding += credit
        channel.reserved += count
        channel.reservedUntil = now + Limits.grantReservation
        reservations.note(channel)
        room.reserved += count
        line.update(channel)
        return (credit, count)
    }

    /// Granted messages have arrived.
    mutating func spend(_ count: Int, of channel: Channel, in room: inout Room) {
        assert(count <= channel.outstanding)
        channel.outstanding -= count
        release(count, of: channel, in: &room)
        if channel.outstanding <= line.threshold { line.update(channel) }
    }

    /// Room reserved by a channel was used, or is free again.
    func release(_ count: Int, of channel: Channel, in room: inout Room) {
        let given = Swift.min(channel.reserved, count)
        channel.reserved -= given
        room.reserved -= given
        assert(room.reserved >= 0)
    }

    /// When the first reservation may end, on the monotonic clock; nil if there is none.
    var deadline: UInt64? { reservations.deadline }

    /// Ends the next reservation that has expired. Returns false if there is none.
    mutating func endReservation(in room: inout Room, now: UInt64) -> Bool {
        guard let channel = reservations.takeEnded(now: now) else { return false }
        release(channel.reserved, of: channel, in: &room)
        return true
    }

    /// A channel has been removed from its topic.
    mutating func withdraw(_ channel: Channel, from room: inout Room) {
        assert(channel.isRemoved)
        line.update(channel)
        reservations.withdraw(channel)
        release(channel.reserved, of: channel, in: &room)
    }
}
