// ChannelCredits: the credit of a topic's channels. It is granted out of the room that the topic has, and reserves some
// of that for a while.

import Replay

struct ChannelCredits {
    /// Channels that want credit.
    var line = CreditLine()
    private var reservations = Reservations()

    /// Grants a channel that wants credit up to its share.
    /// - Parameters:
    ///   - share: messages that each channel may have now.
    ///   - most: messages that one channel may have at any time.
    ///   - free: messages that there is room for.
    /// - Returns: the credit, and the room that it takes; nil if the channel has its share. It is in line again when
    ///   it uses some of it.
    mutating func grant(
        to channel: Channel, share: Int, most: Int, free: Int, of room: inout Room, now: UInt64
    ) -> (credit: Int, room: Int)? {
        // What was granted earlier and lost its reservation counts against the share: an idle channel gathers none.
        let target = Swift.min(most, share + channel.reserved)
        let count = Swift.min(target - Swift.max(channel.outstanding, channel.reserved), free)
        guard count > 0 else { return nil }
        // A first message that is yet to come spends no credit, but takes room. One alone is granted all the same, as
        // a publisher that waits for credit before the first message would wait for ever.
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

    /// Messages came that were granted.
    mutating func spend(_ count: Int, of channel: Channel, in room: inout Room) {
        assert(count <= channel.outstanding)
        channel.outstanding -= count
        release(count, of: channel, in: &room)
        if channel.outstanding <= line.threshold { line.update(channel) }
    }

    /// Room that a channel had reserved is used, or free again.
    func release(_ count: Int, of channel: Channel, in room: inout Room) {
        let given = Swift.min(channel.reserved, count)
        channel.reserved -= given
        room.reserved -= given
        assert(room.reserved >= 0)
    }

    /// When the first reservation may end, on the monotonic clock; nil if there is none.
    var deadline: UInt64? { reservations.deadline }

    /// Returns false if none has ended.
    mutating func endReservation(in room: inout Room, now: UInt64) -> Bool {
        guard let channel = reservations.takeEnded(now: now) else { return false }
        release(channel.reserved, of: channel, in: &room)
        return true
    }

    /// A channel is removed from its topic.
    mutating func withdraw(_ channel: Channel, from room: inout Room) {
        assert(channel.isRemoved)
        line.update(channel)
        reservations.withdraw(channel)
        release(channel.reserved, of: channel, in: &room)
    }
}
