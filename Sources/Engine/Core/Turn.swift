// Turn: the order in which a shard is fed and what comes of it is carried out. The server's loop, the simulator, the
// tests, the fuzzers and the budget all take their turns by it, so that what one of them finds holds for the others.
//
//     what was left over → sockets, the inbox before each → inbox → sockets that moved here → timers
//                        → closes → mail → output → closes → mail

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

/// What drives an engine: it has the sockets, the clock, and the way to other shards.
public protocol TurnDriver {
    associatedtype Engine: TurnEngine

    var engine: Engine { get }
    var now: Instant { get }

    /// Feeds the engine what sockets have. What other shards sent comes before each read: the peer may have learnt on
    /// another connection what is on its way here.
    func readSockets()
    /// Feeds the engine what other shards sent.
    func readInbox()
    /// Gives sockets that came from other shards to their connections.
    func adoptSockets()
    /// Calls the engine's `fire` if its time has come, and does what else is due with time.
    func fireTimers()
    /// Carries out effects that concern reading and closing, log and logins.
    func carryOut()
    /// Writes once to each connection that has output.
    func writeOutput()
    /// Puts a batch into the inbox of another shard.
    func post(_ batch: [ShardMessage], to shard: Int)
}

extension TurnDriver {
    /// One turn of the shard.
    @inlinable
    public func turn() {
        engine.beginTurn()
        // What the turn before had no time for comes first, so that everybody has a turn.
        if engine.hasWork { engine.goOn(now: now) }
        readSockets()
        carryOut()
        readInbox()
        adoptSockets()
        fireTimers()
        carryOut()
        // Before anything is written: a peer that reads its acknowledgement may ask another shard for the message.
        postMail()
        writeOutput()
        carryOut()
        postMail()
    }

    @inlinable
    public func fireTimers() {
        if let deadline = engine.deadline, deadline <= now.monotonic { engine.fire(now: now) }
    }

    /// Puts what other shards are to be told into their inboxes.
    @inlinable
    public func postMail() { engine.effects.takeMail { batch, shard in post(batch, to: shard) } }

    /// Takes the list of those that have output.
    @inlinable
    public func takeFlushes() -> [ConnectionID] {
        var list: [ConnectionID] = []
        swap(&list, &engine.effects.flush)
        return list
    }

    /// Hands the output of connections to `write`, one after the other. It returns how many of the bytes the socket
    /// took; nil if nothing is to be written there.
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
