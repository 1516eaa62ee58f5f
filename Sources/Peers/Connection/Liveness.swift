// Liveness: when a connection's peer was last heard from, and how long it has left responses unread. All times are on
// the monotonic clock.

struct Liveness {
    /// The earliest time at which SETUP, or HTTP's first bytes, could have arrived.
    private(set) var setupSince: UInt64
    /// The total lateness of all ticks that is already taken into account in `setupSince`.
    private var latenessCounted: UInt64?
    var lastHeard: UInt64
    /// How long the peer may be silent; `Limits.httpSilence` over HTTP.
    var lifetime: UInt64 = 0
    /// Whether a probe was sent.
    var probed = false
    /// Since when more than `controlOutput` bytes of responses are unread and no output was taken.
    var unreadSince: UInt64?
    /// The total of the thread's stalls that is already compensated for.
    private var excused: UInt64 = 0

    init(now: UInt64) {
        setupSince = now
        lastHeard = now
    }

    /// Compensates for the thread's stalls of `stoodStill.time` in all, the last of which ended at `stoodStill.until`.
    /// Returns a function that shifts other times alike; nil if there is nothing to compensate for.
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

    /// Discounts the lateness of the shard's ticks, `lateness` nanoseconds in all: what was added since the last call
    /// does not count against SETUP.
    mutating func delaySetup(until lateness: UInt64, now: UInt64) {
        if let counted = latenessCounted { setupSince = setupSince.excused(lateness &- counted, now: now) }
        latenessCounted = lateness
    }
}

/// The part of a connection's input that waits, and its counters.
struct InputState {
    /// Bytes of unfinished and held requests, and of responses, that are charged to the broker's memory.
    var charged = 0
    /// The part of `charged` that waits until the peer reads its responses, or for the connection's turn.
    var undealt = 0
    /// Bytes of publishes that a topic's owner on another shard has not processed yet.
    var forwarded = 0
    /// Bytes and number of publishes that wait for their acknowledgement.
    var parkedBytes = 0
    var parkedCount = 0
    /// Whether the driver should read from the connection.
    var isReading = true
    /// Whether bytes already read wait for the connection's next quantum.
    var isBehind = false
    /// Whether requests already read wait until the peer reads its responses, or a topic's owner has caught up.
    var isHeld = false
}
