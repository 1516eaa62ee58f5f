// PatternNeeds: in how many topics messages wait for the subscriptions to patterns of each connection. When there is
// room for no more positions, the connection that needs most has to end a subscription, and not the one that needs
// another position: a client that requests nothing must not cost others theirs.

/// Connections that need many positions, in levels: each is for twice as many as the one before.
final class PatternNeeds {
    /// What one connection needs.
    struct Need {
        fileprivate(set) var count = 0
        fileprivate var place: (level: Int, ticket: TurnQueue<Connection>.Ticket)?
    }

    /// Positions from which on a connection has a level. Tests use few.
    var least = 1024
    private var levels: [TurnQueue<Connection>] = []

    /// Messages wait for a connection's subscriptions in `change` more topics, or fewer.
    func change(_ connection: Connection, by change: Int) {
        connection.patternNeed.count += change
        let count = connection.patternNeed.count
        assert(count >= 0)
        let level = count < least ? nil : (count / least).bitWidth - (count / least).leadingZeroBitCount - 1
        guard level != connection.patternNeed.place?.level else { return }
        if let place = connection.patternNeed.place.take() { levels[place.level].withdraw(place.ticket) }
        guard let level else { return }
        while levels.count <= level { levels.append(TurnQueue()) }
        connection.patternNeed.place = (level, levels[level].append(connection))
    }

    /// A connection with a higher level than `other`, and none higher; nil if there is none.
    func largest(beside other: Connection) -> Connection? {
        guard let level = levels.lastIndex(where: { !$0.isEmpty }), level > other.patternNeed.place?.level ?? -1
        else { return nil }
        return levels[level].first
    }

    /// Whether no connection has a level.
    var isEmpty: Bool { levels.allSatisfy(\.isEmpty) }

    /// The shard is being deallocated.
    func removeAll() { levels = [] }
}
