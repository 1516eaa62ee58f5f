// Blocking: `block` subscriptions that hold publishers up. One that stays full without progress for too long gives way.

import Replay

/// The buffer of a `block` subscription has been full without progress.
struct Fullness {
    /// On the monotonic clock.
    private(set) var since: UInt64
    /// Where the subscription stood then.
    let floor: SequenceNumber
    /// What the thread's standstills were in all when this was last made up for.
    private(set) var excused: UInt64

    init(since: UInt64, floor: SequenceNumber, excused: UInt64) {
        self.since = since
        self.floor = floor
        self.excused = excused
    }

    /// The thread stood still for so long in all, until `until` last: that does not count.
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

    /// A `block` subscription that stays full without progress gives way. One that messages wait for is looked at again
    /// when it may have been full for too long.
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

    /// Messages wait for a `block` subscription, or did.
    func noteWaiting(_ subscriber: Subscriber) {
        let now = moment.monotonic
        noteFullness(of: subscriber, now: now)
        guard subscriber.timerPlace < 0, subscriber.cursor.floor != nil else { return }
        timers.blockers.schedule(subscriber, by: now.addingClamped(limits.blockLimit))
    }

    /// A `block` subscription was brought messages, or handed some.
    func noteFullness(of subscriber: Subscriber, now: UInt64) {
        guard let floor = subscriber.cursor.floor, isFull(subscriber, from: floor) else {
            return subscriber.fullness = nil
        }
        guard subscriber.fullness?.floor != floor else { return }
        subscriber.fullness = Fullness(since: now, floor: floor, excused: timers.stoodStill.time)
    }

    /// Whether publishers must wait for a `block` subscription that waits for the messages from `floor` on: it holds as
    /// many as it may, or the topic has no bytes left for one more.
    private func isFull(_ subscriber: Subscriber, from floor: SequenceNumber) -> Bool {
        let view = subscriber.view
        guard floor < view.end else { return false }
        if view.end - floor >= subscriber.options.buffer { return true }
        let most = view.byteLimit - view.typical
        return view.log.bytes > most && view.log.bytes(from: floor) > most
    }
}
