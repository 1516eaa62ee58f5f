// ConnectionTable: the connections of a shard by their handles, and the set of connections that have something to
// write.

import Bytes

final class ConnectionTable: ShardPart {
    let timers: Timers

    init(_ context: ShardContext, _ timers: Timers) {
        self.timers = timers
        super.init(context)
    }

    private var table = Slab<Connection>()
    /// Connections whose output has gained space without a write.
    private var roomy: [Connection] = []

    var count: Int { table.count }
    /// One past the highest index in use.
    var bound: Int { table.bound }
    func at(_ place: Int) -> Connection? { table.at(place) }
    subscript(handle: Handle) -> Connection? { table[handle] }
    func insert(_ make: (Handle) -> Connection) -> Connection { table.insert(make) }
    func remove(_ handle: Handle) { table.remove(handle) }

    /// Finds the connection that an input concerns. The next tick visits it.
    @inline(__always)
    func find(_ id: ConnectionID) -> Connection? {
        guard let connection = table[Handle(index: id.index, generation: id.generation)] else { return nil }
        timers.touch(connection)
        return connection
    }

    /// Calls `body` with the connection, for a write. The reference is not retained: `body` must not end a connection,
    /// so the table keeps it alive.
    @inline(__always)
    func withFound<Result>(_ id: ConnectionID, _ body: (Connection) -> Result) -> Result? {
        let found = table.unretained(Handle(index: id.index, generation: id.generation))
        return found?._withUnsafeGuaranteedRef { connection in
            timers.touch(connection)
            return body(connection)
        }
    }

    /// Queues a connection that has something to write.
    func flush(_ connection: Connection) {
        timers.touch(connection)
        guard !connection.lists.isFlushing, !connection.output.blocked else { return }
        connection.lists.isFlushing = true
        effects.flush.append(connection.id)
    }

    /// Charges unprocessed input and unread responses to the broker's memory.
    func charge(_ connection: Connection) {
        let bytes = connection.isClosed ? 0 : connection.bufferedBytes
        let undealt = connection.input.isHeld || connection.input.isBehind ? bytes : 0
        if undealt != connection.input.undealt { pool.undealt += undealt - connection.input.undealt }
        connection.input.undealt = undealt
        if bytes != connection.input.charged { memory.addPending(bytes - connection.input.charged) }
        connection.input.charged = bytes
    }

    /// Removes all connections; called when the shard is destroyed. Connections and their streams refer to each other.
    func removeAll() {
        for place in 0..<table.bound {
            guard let connection = table.at(place) else { continue }
            connection.streams.removeAll()
            connection.waiters.removeAll()
        }
        table = Slab()
        roomy = []
    }

    // Output space

    var hasRoomy: Bool { !roomy.isEmpty }

    /// Notes that output may have left without a write: it now waits for the peer's windows, or its stream has ended.
    /// Other streams of the connection may wait for the space, and no write will trigger them.
    func noteRoom(_ connection: Connection) {
        guard connection.outputWaiterCount > 0 || connection.http?.bodies.hasWindowWaiters == true,
            !connection.lists.isRoomy
        else {
            return
        }
        connection.lists.isRoomy = true
        roomy.append(connection)
    }

    func nextRoomy() -> Connection? {
        let connection = roomy.popLast()
        connection?.lists.isRoomy = false
        return connection
    }

    // Reading

    /// The most bytes to read from a connection at a time. Fewer when memory is short, because the bytes may have to be
    /// kept, and very few if the connection also leaves responses unread.
    func readLimit(of id: ConnectionID) -> Int {
        guard pool.isReadingShort || memory.isPendingFull else { return Limits.readQuantum }
        let connection = table[Handle(index: id.index, generation: id.generation)]
        if let connection, connection.output.blocked || connection.output.unreadAnswers > 0 { return Limits.leastRead }
        return pool.isReadingShort ? Limits.shortRead : Limits.readQuantum
    }

    /// Whether some of a connection's input is not processed yet. If so, read nothing more from it.
    func isBehind(_ id: ConnectionID) -> Bool {
        table[Handle(index: id.index, generation: id.generation)]?.input.isBehind ?? false
    }
}
