// Lifecycle: how far a connection has come, why it ends, and how its draining goes.

struct Lifecycle {
    enum Phase {
        /// SETUP has not come yet.
        case new
        case open
        /// A last error or answer is on its way; nothing more is read. Closed when it is written, or at the deadline.
        case closing(deadline: UInt64)
        case closed
    }

    let openedAt: UInt64
    private(set) var phase = Phase.new
    /// Why it ends, once that is known. No part of the phase, which is looked at for every event and so has no text.
    private(set) var reason: String?
    /// An event reported that it was opened, and another one is to report its end.
    private(set) var isAnnounced = false
    /// When messages were handed over last while the broker drains, as far as is known, and how many had been then.
    private(set) var drained = (at: UInt64(0), delivered: UInt64(0))

    init(openedAt: UInt64) { self.openedAt = openedAt }

    var isOpen: Bool { if case .open = phase { true } else { false } }
    var isClosed: Bool { if case .closed = phase { true } else { false } }
    /// Its last error is on its way, or has gone.
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

    /// Its subscriptions have been handed `delivered` messages in all. Returns for how long that has not changed.
    mutating func drain(delivered: UInt64, now: UInt64) -> UInt64 {
        assert(now >= drained.at)
        if delivered != drained.delivered { drained = (now, delivered) }
        return now - drained.at
    }
}
