// Lifecycle: a connection's phase, why it ends, and its progress while draining.

struct Lifecycle {
    enum Phase {
        /// SETUP has not arrived yet.
        case new
        case open
        /// A last error or response is being written; nothing more is read. The connection is closed once that is
        /// written, or at the deadline.
        case closing(deadline: UInt64)
        case closed
    }

    let openedAt: UInt64
    private(set) var phase = Phase.new
    /// Why the connection ends, once known. Separate from the phase, which is checked for every event and so holds no
    /// string.
    private(set) var reason: String?
    /// Whether an event reported that the connection was opened, in which case a second event must report its end.
    private(set) var isAnnounced = false
    /// While the broker drains: when messages were last known to be handed over, and how many there had been.
    private(set) var drained = (at: UInt64(0), delivered: UInt64(0))

    init(openedAt: UInt64) { self.openedAt = openedAt }

    var isOpen: Bool { if case .open = phase { true } else { false } }
    var isClosed: Bool { if case .closed = phase { true } else { false } }
    /// Whether the connection's last error is being written or has been sent.
    var hasEnded: Bool {
        switch phase {
        case .new, .open: false
        case .closing, .closed: true
        }
    }

    mutating func open() {
        assert(!isAnnounced && !hasEnded)
        phase = .open
        isAnnounced = true
    }

    mutating func beginClosing(deadline: UInt64, reason: String?) {
        assert(!hasEnded)
        phase = .closing(deadline: deadline)
        self.reason = reason
    }

    mutating func close(reason: String) {
        assert(!isClosed)
        phase = .closed
        self.reason = reason
    }

    // Draining

    mutating func beginDraining(now: UInt64) { drained.at = now }

    /// Notes that the connection's subscriptions have received `delivered` messages in all. Returns for how long that
    /// number has not changed.
    mutating func drain(delivered: UInt64, now: UInt64) -> UInt64 {
        assert(now >= drained.at)
        if delivered != drained.delivered { drained = (now, delivered) }
        return now - drained.at
    }
}
