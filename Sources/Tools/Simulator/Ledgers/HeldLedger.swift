// HeldLedger, WatchLedger: streams that are only required to cost no more memory than allowed.

/// A request that the client begins and never ends. The broker may refuse it at any time.
final class HeldLedger: StreamLedger {
    override var isOpen: Bool { false }
}

/// A subscription to one of the broker's system topics.
final class WatchLedger: StreamLedger {
    override var isOpen: Bool { false }
}
