// Timeline: what will happen later, in order. Events that are due at the same time keep the order of the calls.

struct Timeline {
    enum Event {
        case deliver([UInt8], to: ConnectionID, Connection.Lane)
        /// The proposal with a number is committed.
        case commit(Stream, UInt64)
    }

    private var events: [(due: UInt64, event: Event)] = []

    /// When the first event is due.
    var first: UInt64? { events.last?.due }

    mutating func insert(_ event: Event, due: UInt64) {
        // The first event is at the end.
        var range = 0..<events.count
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            range = events[middle].due > due ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        events.insert((due, event), at: range.lowerBound)
    }

    mutating func removeFirst() -> Event? { events.popLast()?.event }

    /// Drops what would arrive on a connection.
    mutating func removeAll(to id: ConnectionID) {
        events.removeAll { if case .deliver(_, id, _) = $0.event { true } else { false } }
    }
}
