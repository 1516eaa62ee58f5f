// Blocking: `block` subscriptions that hold publishers back. A subscription that stays full without progress for too
// long ends.

import Replay

/// The buffer of a `block` subscription has been full without progress.
struct Fullness {
    /// On the monotonic clock.
    private(set) var since: UInt64
    /// The subscription's position at that time.
    let floor: SequenceNumber
    /// The thread's total standstill that has already been taken into account.
    private(set) var excused: UInt64

    init(since: UInt64, floor: SequenceNumber, excused: UInt64) {
        self.since = since
        self.floor = floor
        self.excused = excused
    }

    /// Discounts the time for which the thread stood still: `time` in total, most recently until `until`.
    mutating func excuse(_ stoodStill: (time: UInt64, until: UInt64), now: UInt64) {
        guard excused != stoodStill.time else { return }
        if since < stoodStill.until { since = since.excused(stoodStill.time &- excused, now: now) }
        excused = stoodStill.time
    }
}

final class Blocking: ShardPart {
    let timers: Timers
    // Above
    unowned(unsafe) var delivery: Delivery!

    init(_ context: ShardContext, _ timers: Timers) {
        self.timers = timers
        super.init(context)
    }

    /// Ends a `block` subscription that has been full without progress for too long. If messages wait for the
    /// subscription, it is checked again at the earliest time at which it might have to end.
    func tick(_ subscriber: Subscriber, now: Instant) {
        let time = now.monotonic
        subscriber.fullness?.excuse(timers.stoodStill, now: time)
        noteFullness(of: subscriber, now: time)
        guard let since = subscriber.fullness?.since else {
            if subscriber.cursor.floor != nil {
                timers.blockers.schedule(subscriber, by: time.addingClamped(limits.blockLimit))
            }
            return
        }
        guard time - since >= limits.blockLimit else {
            return timers.blockers.schedule(subscriber, by: since.addingClamped(limits.blockLimit))
        }
        subscriber.cursor.fail(.blockedTooLong)
        delivery.deliver(subscriber, now: now)
    }

    /// Notes that the waiting messages of a `block` subscription have changed.
    func noteWaiting(_ subscriber: Subscriber) {
        let now = moment.monotonic
        noteFullness(of: subscriber, now: now)
        guard subscriber.timerPlace < 0, subscriber.cursor.floor != nil else { return }
        timers.blockers.schedule(subscriber, by: now.addingClamped(limits.blockLimit))
    }

    /// Updates `fullness` after a `block` subscription advanced or was handed messages.
    func noteFullness(of subscriber: Subscriber, now: UInt64) {
        guard let floor = subscriber.cursor.floor, isFull(subscriber, from: floor) else {
            return subscriber.fullness = nil
        }
        guard subscriber.fullness?.floor != floor else { return }
        subscriber.fullness = Fullness(since: now, floor: floor, excused: timers.stoodStill.time)
    }

    /// Whether publishers must wait for a `block` subscription whose oldest waiting message is `floor`: its buffer is
    /// full, or the topic has no bytes left for another message.
    private func isFull(_ subscriber: Subscriber, from floor: SequenceNumber) -> Bool {
        let view = subscriber.view
        guard floor < view.end else { return false }
        if view.end - floor >= subscriber.options.buffer { return true }
        let most = view.byteLimit - view.typical
        return view.log.bytes > most && view.log.bytes(from: floor) > most
    }
}
