// HeldLedger, WatchLedger: streams that nothing is asked of but that they cost no more than they may.

/// A request that the client begins and does not end. The broker may refuse it at any time.
final class HeldLedger: StreamLedger {
    override var isOpen: Bool { false }
}

/// A subscription to what the broker tells of itself.
final class WatchLedger: StreamLedger {
    override var isOpen: Bool { false }
}
