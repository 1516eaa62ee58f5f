// ShardLoop: one thread's loop around one engine. It feeds the engine what the sockets, the clock and the other threads
// bring, and carries out its effects, each once a turn:
//
//     wait → read one quantum per ready socket → inbox → timers → write once per connection with output → mail
//
// What a turn leaves over (unread bytes, unwritten output) comes up again in the next one, after everybody else's.

import Core
import EventLoop
import Glibc

/// What other threads put into a loop's inbox.
enum InboxItem: Sendable {
    /// Messages from another shard, as one batch.
    case mail([Mail])
    /// A connection that was accepted; the loop owns the socket from here.
    case accepted(fd: Int32, peer: String, face: Face)
    /// What the engine is bounded by from now on.
    case limits(Limits)
    /// Shut down gently: `Acceptor.Command.idle` is owed once no connection is left.
    case drain
    /// Is anybody there? `LoopContext.pulse` is to be answered.
    case ping
    /// End the thread now.
    case stop
}

/// What the loops of one broker have in common.
struct LoopContext: Sendable {
    var limits: Limits
    /// What all logs and queues together may hold.
    var memory: MemoryBudget
    /// By shard.
    var inboxes: [Inbox<InboxItem>]
    var acceptor: Inbox<Acceptor.Command>
    var connections: ConnectionCount
    var log: Log
    /// Answered by shards and acceptor.
    var pulse = Pulse()
}

/// Belongs to the thread that made it. Generic so that tests can put an engine of their own in; the broker's is
/// specialised in this module, and costs no dynamic call.
final class ShardLoop<Shard: Engine> {
    private(set) var context: LoopContext
    let shard: Shard
    private let inbox: Inbox<InboxItem>
    var poller: Poller
    var connections = ConnectionTable()
    var lingering = LingerQueue()
    private let buffer: UnsafeMutableRawBufferPointer
    private let pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>
    /// The connections that this turn writes to; the engine collects the next turn's meanwhile.
    private var flushing: [ConnectionID] = []
    /// Made when the first connection speaks HTTP/1.1.
    var http1: HTTP1Driver<Shard>?
    /// Connections of HTTP/1.1 whose client has sent its end, which the library may have missed.
    var ended: [ConnectionID] = []
    private(set) var now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
    enum Phase { case running, draining, idle, stopped }
    private(set) var phase = Phase.running

    init(index: Int, context: LoopContext, shard: Shard) throws(SystemError) {
        let poller = try Poller()
        inbox = context.inboxes[index]
        try poller.add(inbox.descriptor, token: Token.inbox.rawValue, interest: .read)
        self.context = context
        self.poller = poller
        self.shard = shard
        buffer = .allocate(byteCount: Limits.readQuantum, alignment: 16)
        pieces = .allocate(capacity: Socket.piecesLimit)
    }

    deinit {
        buffer.deallocate()
        pieces.deallocate()
    }

    /// Runs until it is told to stop; closes every socket.
    func run() throws(SystemError) {
        defer { closeAll() }
        while phase != .stopped { try turn() }
    }

    private func turn() throws(SystemError) {
        let count = try poller.wait(timeout: timeout)
        now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
        for event in 0..<count {
            let (token, ready) = poller[event]
            switch Token(rawValue: token) {
            case .inbox: inbox.clearWake()
            case .connection(let id): handle(id, ready)
            case .lingering(let number): discard(number)
            case .micro: http1?.wake()
            }
        }
        carryOut()
        takeMail()
        if let deadline = shard.deadline, deadline <= now.monotonic {
            shard.fire(now: now)
            if !ended.isEmpty { tellEnds() }
        }
        lingering.expire(now: now.monotonic)
        carryOut()
        // Before anything is written: a peer that reads its acknowledgement may ask another shard for the message.
        deliver()
        flush()
        carryOut()
        deliver()
        tellIdle()
    }

    private var timeout: UInt64? {
        if !shard.effects.flush.isEmpty || http1?.isDue == true { return 0 }
        let first: UInt64
        switch (shard.deadline, lingering.deadline) {
        case (nil, nil): return nil
        case (let engine, let linger): first = min(engine ?? .max, linger ?? .max)
        }
        let now = Clock.monotonic()
        return first > now ? first - now : 0
    }

    // MARK: Inputs

    private func handle(_ id: ConnectionID, _ ready: Readiness) {
        guard let connection = connections[id] else { return }
        guard connection.pointee.kind == .framed else { return handleHTTP(id, connection, ready) }
        if ready.contains(.writable), connection.pointee.blocked {
            connection.pointee.blocked = false
            watch(id, connection.pointee)
            shard.writable(id, now: now)
        }
        if connection.pointee.paused || connection.pointee.ended {
            // Nobody reads, so nobody would find out.
            if !ready.isDisjoint(with: .dead) { lose(id, error: Socket.error(connection.pointee.fd)) }
        } else if !ready.isDisjoint(with: [.readable, .dead]) {
            read(id, connection)
        }
    }

    func read(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        switch Socket.read(connection.pointee.fd, into: buffer) {
        case .bytes(let count):
            // The peer may have learnt on another connection what is in the mail here: that comes first.
            takeMail()
            shard.receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]), on: id, now: now)
        case .end:
            connection.pointee.ended = true
            watch(id, connection.pointee)
            shard.receiveEnd(on: id, now: now)
        case .blocked: break
        case .failed(let error): lose(id, error: error)
        }
    }

    private func takeMail() {
        guard !inbox.isEmpty else { return }
        inbox.drain { item in
            switch item {
            case .mail(let mail): shard.receive(mail, now: now)
            case .accepted(let fd, let peer, let face): adopt(fd, peer: peer, face: face)
            case .limits(let limits):
                context.limits = limits
                shard.adopt(limits, now: now)
            case .drain:
                if phase == .running { phase = .draining }
                shard.drain(now: now)
            case .ping: context.pulse.answer()
            case .stop: phase = .stopped
            }
        }
    }

    private func adopt(_ fd: Int32, peer: String, face: Face) {
        // The engine may give out the index of a connection that it has just closed.
        carryOut()
        guard phase != .stopped, let id = shard.open(peer: peer, face: face, now: now) else {
            close(fd)
            context.connections.remove()
            context.log.write(.debug, "connection refused", [("protocol", face.name), ("peer", peer)])
            return
        }
        connections.insert(id, fd: fd, kind: face == .http ? .undecided : .framed)
        do throws(SystemError) {
            try poller.add(fd, token: Token.connection(id).rawValue, interest: .read)
        } catch {
            lose(id, error: error.code)
        }
    }

    // MARK: Effects

    /// Carries out what concerns reading and closing.
    private func carryOut() {
        for (id, reading) in shard.effects.reading {
            guard let connection = connections[id], connection.pointee.kind != .http1,
                connection.pointee.paused == reading
            else { continue }
            connection.pointee.paused = !reading
            watch(id, connection.pointee)
        }
        shard.effects.reading.removeAll(keepingCapacity: true)
        for id in shard.effects.close {
            guard let connection = connections.remove(id) else { continue }
            context.connections.remove()
            if let micro = connection.micro {
                http1?.drop(micro)
            } else if connection.ended {
                close(connection.fd)
            } else {
                linger(connection.fd)
            }
        }
        shard.effects.close.removeAll(keepingCapacity: true)
        for record in shard.effects.log { context.log.write(record) }
        shard.effects.log.removeAll(keepingCapacity: true)
    }

    /// Writes once to each connection that had output when this turn's inputs were done.
    private func flush() {
        swap(&flushing, &shard.effects.flush)
        for id in flushing {
            guard let connection = connections[id] else { continue }
            let count = shard.gather(id, into: pieces)
            if count > 0 {
                write(id, connection, UnsafeBufferPointer(rebasing: pieces[..<count]))
            } else if let micro = connection.pointee.micro {
                http1?.proceed(micro)
            }
        }
        flushing.removeAll(keepingCapacity: true)
        if let http1, http1.isDue {
            // As before a read: what is in the mail comes ahead of what clients ask here.
            takeMail()
            http1.run()
        }
    }

    private func write(
        _ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>,
        _ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>
    ) {
        var offered = 0
        for piece in pieces { offered += piece.count }
        let written: Int
        switch Socket.write(connection.pointee.fd, pieces) {
        case .bytes(let count): written = count
        case .blocked: written = 0
        case .failed(let error): return lose(id, error: error)
        }
        if written < offered {
            connection.pointee.blocked = true
            watch(id, connection.pointee)
        }
        shard.wrote(written, blocked: written < offered, on: id, now: now)
    }

    /// Puts each shard's messages into its inbox, as one batch.
    private func deliver() {
        for other in context.inboxes.indices { post(&shard.effects.mail[other], to: other) }
        for other in context.inboxes.indices { post(&shard.effects.lateMail[other], to: other) }
    }

    private func post(_ mail: inout [Mail], to other: Int) {
        guard !mail.isEmpty else { return }
        var batch: [Mail] = []
        swap(&batch, &mail)
        context.inboxes[other].push(.mail(batch))
    }

    private func tellIdle() {
        guard phase == .draining, shard.isIdle, connections.count == 0, lingering.count == 0,
            http1?.count ?? 0 == 0
        else { return }
        phase = .idle
        context.acceptor.push(.idle)
    }

    // MARK: Sockets

    private func watch(_ id: ConnectionID, _ connection: Connection) {
        var interest: Interest = []
        if !connection.paused, !connection.ended { interest.insert(.read) }
        if connection.blocked { interest.insert(.write) }
        do throws(SystemError) {
            try poller.modify(connection.fd, token: Token.connection(id).rawValue, interest: interest)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    func lose(_ id: ConnectionID, error: Int32) {
        guard let connection = connections.remove(id) else { return }
        if let micro = connection.micro { http1?.drop(micro) } else { close(connection.fd) }
        context.connections.remove()
        shard.lost(id, reason: error == 0 ? "the peer hung up" : SystemError.text(of: error), now: now)
    }

    func linger(_ fd: Int32) {
        Socket.shutdownWrite(fd)
        let number = lingering.append(fd, deadline: now.monotonic + context.limits.closeTime)
        do throws(SystemError) {
            try poller.modify(fd, token: Token.lingering(number).rawValue, interest: .read)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    private func discard(_ number: UInt32) {
        guard let fd = lingering.socket(number) else { return }
        switch Socket.read(fd, into: buffer) {
        case .bytes, .blocked: break
        case .end, .failed: lingering.close(number)
        }
    }

    private func closeAll() {
        let count = context.connections
        connections.removeAll { connection in
            if connection.micro == nil { close(connection.fd) }
            count.remove()
        }
        http1?.stop()
        lingering.closeAll()
        // What came behind `stop`, or while the loop failed.
        inbox.drain { item in
            if case .accepted(let fd, _, _) = item {
                close(fd)
                count.remove()
            }
        }
    }
}
