// Turn: the order in which a shard receives inputs and its effects are carried out. The server's loop, the simulator,
// the tests, the fuzzers and the budget all use it, so that what one of them finds applies to the others.
//
//     deferred work → sockets, the inbox before each → inbox → sockets that moved here → timers
//                   → closes → messages → output → closes → messages

/// What is driven: `Shard`, or an engine in its place.
public protocol TurnEngine: AnyObject {
    var effects: Effects { get set }
    var hasWork: Bool { get }
    var deadline: UInt64? { get }
    func beginTurn()
    func goOn(now: Instant)
    func fire(now: Instant)
    func gather(_ id: ConnectionID, into pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>) -> Int
    func wrote(_ count: Int, blocked: Bool, on id: ConnectionID, now: Instant)
}

/// Drives an engine: it has the sockets, the clock, and the connection to other shards.
public protocol TurnDriver {
    associatedtype Engine: TurnEngine

    var engine: Engine { get }
    var now: Instant { get }

    /// Feeds the engine what the sockets have. Messages from other shards come before each read, because the peer may
    /// have learned on another connection of something that is still on its way here.
    func readSockets()
    /// Feeds the engine the messages from other shards.
    func readInbox()
    /// Attaches sockets from other shards to their connections.
    func adoptSockets()
    /// Calls the engine's `fire` when it is due, and does other time-driven work.
    func fireTimers()
    /// Carries out effects for reading, closing, logging and logins.
    func carryOut()
    /// Writes once to each connection that has output.
    func writeOutput()
    /// Puts a batch into the inbox of another shard.
    func post(_ batch: [ShardMessage], to shard: Int)
}

extension TurnDriver {
    @inlinable
    public func turn() {
        engine.beginTurn()
        // Work deferred by the previous turn comes first, so that all of it gets its turn.
        if engine.hasWork { engine.goOn(now: now) }
        readSockets()
        carryOut()
        readInbox()
        adoptSockets()
        fireTimers()
        carryOut()
        // Before anything is written: a peer that reads its acknowledgement may ask another shard for the message.
        postShardMessages()
        writeOutput()
        carryOut()
        postShardMessages()
    }

    @inlinable
    public func fireTimers() {
        if let deadline = engine.deadline, deadline <= now.monotonic { engine.fire(now: now) }
    }

    /// Puts messages into the inboxes of other shards.
    @inlinable
    public func postShardMessages() { engine.effects.takeMessages { batch, shard in post(batch, to: shard) } }

    /// Takes the list of connections with output.
    @inlinable
    public func takeFlushes() -> [ConnectionID] {
        var list: [ConnectionID] = []
        swap(&list, &engine.effects.flush)
        return list
    }

    /// Passes the output of each connection in the list to `write`, which returns how many bytes the socket took, or
    /// nil if nothing may be written to it.
    @inlinable
    public func write(
        _ list: [ConnectionID], _ pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>,
        _ write: (_ id: ConnectionID, _ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>, _ offered: Int) -> Int?
    ) {
        let (engine, now) = (engine, now)
        for id in list {
            let count = engine.gather(id, into: pieces)
            guard count > 0 else { continue }
            var offered = 0
            for index in 0..<count { offered += pieces[index].count }
            guard let taken = write(id, UnsafeBufferPointer(rebasing: pieces[..<count]), offered) else { continue }
            engine.wrote(taken, blocked: taken < offered, on: id, now: now)
        }
    }
}

extension Shard: TurnEngine {}
