// ConnectionTable: the connections of a shard by their handles, and those of them that have something to write.

import Bytes

final class ConnectionTable: ShardPart {
    let timers: Timers

    init(_ context: ShardContext, _ timers: Timers) {
        self.timers = timers
        super.init(context)
    }

    private var table = Slab<Connection>()
    /// Those whose output has room that no socket made.
    private var roomy: [Connection] = []

    var count: Int { table.count }
    /// Beyond the last place of a connection.
    var bound: Int { table.bound }
    func at(_ place: Int) -> Connection? { table.at(place) }
    subscript(handle: Handle) -> Connection? { table[handle] }
    func insert(_ make: (Handle) -> Connection) -> Connection { table.insert(make) }
    func remove(_ handle: Handle) { table.remove(handle) }

    /// The connection that an input is about. The next tick looks at it.
    @inline(__always)
    func find(_ id: ConnectionID) -> Connection? {
        guard let connection = table[Handle(index: id.index, generation: id.generation)] else { return nil }
        timers.touch(connection)
        return connection
    }

    /// Calls `body` with it, for a write. No reference is counted: `body` ends no connection, and so the table keeps it
    /// meanwhile.
    @inline(__always)
    func withFound<Result>(_ id: ConnectionID, _ body: (Connection) -> Result) -> Result? {
        let found = table.unretained(Handle(index: id.index, generation: id.generation))
        return found?._withUnsafeGuaranteedRef { connection in
            timers.touch(connection)
            return body(connection)
        }
    }

    /// The connection has something to write.
    func flush(_ connection: Connection) {
        timers.touch(connection)
        guard !connection.isFlushing, !connection.output.blocked else { return }
        connection.isFlushing = true
        effects.flush.append(connection.id)
    }

    /// What was read and not dealt with, and answers that are not read, count as the broker's memory.
    func charge(_ connection: Connection) {
        let bytes = connection.isClosed ? 0 : connection.bufferedBytes
        let undealt = connection.input.isHeld || connection.input.isBehind ? bytes : 0
        if undealt != connection.input.undealt { pool.undealt += undealt - connection.input.undealt }
        connection.input.undealt = undealt
        if bytes != connection.input.charged { memory.addPending(bytes - connection.input.charged) }
        connection.input.charged = bytes
    }

    /// The shard is gone. Connections and their streams refer to each other.
    func removeAll() {
        for place in 0..<table.bound {
            guard let connection = table.at(place) else { continue }
            connection.streams.removeAll()
            connection.removeHungry()
            connection.waitingListings.removeAll()
        }
        table = Slab()
        roomy = []
    }

    // Room

    var hasRoomy: Bool { !roomy.isEmpty }

    /// What waited in the output may have gone without a write: it waits for its peer's windows now, or its stream has
    /// ended. Others of the connection may wait for that room, and no write will tell them.
    func noteRoom(_ connection: Connection) {
        guard connection.hungryCount > 0 || connection.http?.isCrowded == true, !connection.isRoomy else { return }
        connection.isRoomy = true
        roomy.append(connection)
    }

    func nextRoomy() -> Connection? {
        let connection = roomy.popLast()
        connection?.isRoomy = false
        return connection
    }

    // Reading

    /// Bytes to be read from a connection at a time, at most: less where memory is short, as they may have to be kept,
    /// and next to nothing from one that leaves answers unread meanwhile.
    func readLimit(of id: ConnectionID) -> Int {
        guard pool.isReadingShort || memory.isPendingFull else { return Limits.readQuantum }
        let connection = table[Handle(index: id.index, generation: id.generation)]
        if let connection, connection.output.blocked || connection.output.unreadAnswers > 0 { return Limits.leastRead }
        return pool.isReadingShort ? Limits.shortRead : Limits.readQuantum
    }

    /// What a connection sent is not dealt with yet: nothing more is to be read from it.
    func isBehind(_ id: ConnectionID) -> Bool {
        table[Handle(index: id.index, generation: id.generation)]?.input.isBehind ?? false
    }
}
