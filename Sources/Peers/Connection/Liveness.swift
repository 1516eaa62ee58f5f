// Liveness: when a connection's peer was heard of last, and since when it leaves its answers unread. All moments are on
// the monotonic clock.

struct Liveness {
    /// Since when SETUP, or what HTTP begins with, could have come.
    private(set) var setupSince: UInt64
    /// What the lateness of all ticks together was when it counted last towards that.
    private var latenessCounted: UInt64?
    var lastHeard: UInt64
    /// For how long nothing need be heard; `Limits.httpSilence` over HTTP.
    var lifetime: UInt64 = 0
    /// It was asked whether it is still there.
    var probed = false
    /// Since when more answers than `controlOutput` are unread, and none of the output was taken.
    var unreadSince: UInt64?
    /// What the thread's standstills were in all when this was last made up for.
    private var excused: UInt64 = 0

    init(now: UInt64) {
        setupSince = now
        lastHeard = now
    }

    /// The thread stood still for so long in all, until `until` last. Returns how to excuse other moments for it; nil
    /// where it has been made up for.
    mutating func excuse(_ stoodStill: (time: UInt64, until: UInt64), now: UInt64) -> ((UInt64) -> UInt64)? {
        guard excused != stoodStill.time else { return nil }
        let time = stoodStill.time &- excused
        excused = stoodStill.time
        func excuse(_ since: UInt64) -> UInt64 {
            since < stoodStill.until ? since.excused(time, now: now) : since
        }
        lastHeard = excuse(lastHeard)
        unreadSince = unreadSince.map(excuse)
        return excuse
    }

    /// The shard's ticks have been late by `lateness` nanoseconds in all. What has come since this was told last
    /// does not count against SETUP.
    mutating func delaySetup(until lateness: UInt64, now: UInt64) {
        if let counted = latenessCounted { setupSince = setupSince.excused(lateness &- counted, now: now) }
        latenessCounted = lateness
    }
}

/// What of a connection's input waits, and counts.
struct InputState {
    /// Bytes of unfinished and held requests, and of answers, as the broker's memory was charged for them.
    var charged = 0
    /// Those of them that wait until the peer reads its answers, or for the connection's turn.
    var undealt = 0
    /// Bytes of publishes that a topic's owner on another shard has not dealt with yet.
    var forwarded = 0
    /// Bytes and number of publishes that wait for their acknowledgement.
    var parkedBytes = 0
    var parkedCount = 0
    /// The driver is to read from it.
    var isReading = true
    /// What was read waits for the connection's next quantum.
    var isBehind = false
    /// Requests that were read wait until the peer reads its answers, or a topic's owner has caught up.
    var isHeld = false
}
