// TurnInputs: how far a loop's turn has got with its inputs, which are sockets and the inbox.

struct TurnInputs {
    /// When the turn stops reading, on the monotonic clock.
    private(set) var end: UInt64 = 0
    /// Whether the turn has handled an item of the inbox.
    var hasTakenItem = false
    /// Whether the turn left sockets waiting because of the inbox, and whether the previous turn did.
    var areDelayed = false
    private(set) var wereDelayed = false
    /// Nanoseconds that the turn has spent on handshakes.
    var handshakeTime: UInt64 = 0

    /// A turn begins.
    /// - Parameter hasEvents: whether there are sockets to read. They count as delayed until one of them is read.
    mutating func begin(until end: UInt64, hasEvents: Bool) {
        self.end = end
        hasTakenItem = false
        handshakeTime = 0
        (wereDelayed, areDelayed) = (areDelayed, hasEvents)
    }
}
