// ShardLoop: one thread's loop around one engine. It waits for what the sockets, the clock and the other threads bring,
// and takes a turn, as TurnDriver has it: one quantum is read per ready socket, and one write made per connection with
// output.
//
// What a turn leaves over (unread bytes, unwritten output, events that it had no time for) comes up again in the next
// one, after everybody else's.

import Core
import EventLoop
import Glibc
import TLS

/// Belongs to the thread that made it. Generic so that tests can put an engine of their own in; the broker's is
/// specialised in this module, and costs no dynamic call.
final class ShardLoop<Shard: Engine>: TurnDriver {
    var context: LoopContext
    let shard: Shard
    let inbox: Inbox<InboxItem>
    let index: Int
    private(set) var figures = LoopFigures()
    var poller: Poller
    var connections = ConnectionTable()
    var lingering: LingerQueue
    let buffer: UnsafeMutableRawBufferPointer
    private let pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>
    /// The connections to write to, and how many of them have had their turn; the engine collects others meanwhile.
    private var flushing: [ConnectionID] = []
    private var flushed = 0
    /// Connections that one turn writes to, each of which is a call of the system's; and bytes, which it copies.
    private static var flushSlice: Int { 256 }
    private static var flushBytes: Int { 4 << 20 }
    /// What came through the inbox and has not been dealt with.
    var mail: [InboxItem] = []
    /// What the poller has told of, and how much of that has been dealt with.
    private var events = 0..<0
    let http1 = HTTP1Drivers<Shard>()
    /// Connections of HTTP/1.1 whose client has sent its end, which the library may have missed.
    var ended: [ConnectionID] = []
    /// Sockets that arrived for connections here. Not taken before what was read from others has been dealt with: it
    /// may have come from the socket that one of these takes the place of.
    var arrivals: [(MovedSocket, Handover)] = []
    /// Connections that have something to be read of which the poller knows nothing.
    var unread: [ConnectionID] = []
    /// Connections of HTTP/1.1 that the library is yet to be given.
    var newcomers: ArraySlice<ConnectionID> = []
    /// When this turn has read enough.
    private var turnEnd: UInt64 = 0
    /// Time that this turn has spent on handshakes.
    var handshakeTime: UInt64 = 0
    var failedHandshakes = FailureTally(.info, "TLS handshakes failed")
    /// Connections of HTTP/1.1 over TLS.
    var relays = Relays()
    private(set) var now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
    enum Phase { case running, draining, idle, stopped }
    var phase = Phase.running

    init(index: Int, context: LoopContext, shard: Shard) throws(SystemError) {
        let poller = try Poller()
        inbox = context.inboxes[index]
        self.index = index
        try poller.add(inbox.descriptor, token: Token.inbox.rawValue, interest: .read)
        self.context = context
        self.poller = poller
        self.shard = shard
        lingering = LingerQueue(limit: context.files.lingering)
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
        while phase != .stopped { try step() }
    }

    /// Waits until there is something to do, and takes a turn.
    func step() throws(SystemError) {
        // Those that the turn before had no time for come first.
        if events.isEmpty { events = 0..<(try poller.wait(timeout: timeout)) }
        now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
        turn()
        tellIdle()
        let end = Clock.monotonic()
        figures.record(end - now.monotonic, end: end, work: Clock.thread)
    }

    // MARK: A turn

    var engine: Shard { shard }

    func readSockets() {
        turnEnd = Clock.monotonic() + Limits.turnTime
        while let event = events.first, takeMail(), !isTurnOver {
            events = event + 1..<events.upperBound
            handle(event)
        }
        handshakeTime = 0
        if !unread.isEmpty, takeMail() { readUnread() }
        if !newcomers.isEmpty { adoptNewcomers() }
    }

    func readInbox() { takeMail() }

    func adoptSockets() {
        if !arrivals.isEmpty { takeArrivals() }
    }

    func fireTimers() {
        if let deadline = shard.deadline, deadline <= now.monotonic {
            shard.fire(now: now)
            if !ended.isEmpty { tellEnds() }
            relays.expire(now: now.monotonic, limit: context.limits.httpSilence)
            failedHandshakes.tell(now: now.monotonic, log: context.log)
            context.frequent.tell(now: now.monotonic, log: context.log)
        }
        lingering.expire(now: now.monotonic)
    }

    /// What is left of this turn's inputs is for the next one: the engine's work has taken its share, or all of it,
    /// with the reading of sockets and with TLS, its time.
    var isTurnOver: Bool { shard.isTurnOver || Clock.monotonic() >= turnEnd }

    private func handle(_ event: Int) {
        let (token, ready) = poller[event]
        switch Token(rawValue: token) {
        case .inbox: inbox.clearWake()
        case .connection(let id): handle(id, ready)
        case .lingering(let number): lingering.advance(number, ready, scratch: buffer, poller)
        case .micro(let place): http1.wake(place)
        case .relay(let number): relay(number, isDead: !ready.isDisjoint(with: .dead))
        case .relayInner(let number): relay(number, isDead: false)
        case .listener: break
        }
    }

    private var timeout: UInt64? {
        if shard.hasWork || flushed < flushing.count || !shard.effects.flush.isEmpty || http1.isDue
            || !unread.isEmpty || !newcomers.isEmpty || !arrivals.isEmpty || !mail.isEmpty
        {
            return 0
        }
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
        switch connection.pointee.kind {
        case .framed: break
        case .undecided, .newcomer, .http1: return handleHTTP(id, connection, ready)
        case .handshaking(let wireProtocol): return shakeHands(id, connection, wireProtocol)
        }
        if let tls = connection.pointee.tls, tls.isHeld, ready.contains(.writable),
            case .failed(let error) = tls.flush()
        {
            return lose(id, error: error)
        }
        if ready.contains(.writable), connection.pointee.blocked, connection.pointee.tls?.isHeld != true {
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
        guard !shard.isBehind(id) else {
            // The poller tells again of what is in the socket.
            if connection.pointee.tls?.hasNews == true { unread.append(id) }
            return
        }
        let buffer = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(shard.readLimit(of: id)))
        let result: ReadResult
        if let tls = connection.pointee.tls {
            result = tls.read(into: buffer)
            if tls.hasNews { unread.append(id) }
        } else {
            result = Socket.read(connection.pointee.fd, into: buffer)
        }
        switch result {
        case .bytes(let count):
            // The peer may have learnt on another connection what has come here since: that comes first.
            takeMail(all: true)
            shard.receive(UnsafeRawBufferPointer(rebasing: buffer[..<count]), on: id, now: now)
            if !shard.effects.handovers.isEmpty { sendHandovers() }
        case .end:
            connection.pointee.ended = true
            watch(id, connection.pointee)
            shard.receiveEnd(on: id, now: now)
        case .blocked: break
        case .failed(let error): lose(id, error: error)
        }
    }

    // MARK: Effects

    /// Carries out what concerns reading and closing.
    func carryOut() {
        for (id, reading) in shard.effects.reading {
            guard let connection = connections[id], connection.pointee.paused == reading else { continue }
            switch connection.pointee.kind {
            case .newcomer, .http1, .handshaking: continue
            case .framed, .undecided: break
            }
            connection.pointee.paused = !reading
            watch(id, connection.pointee)
            if reading, connection.pointee.tls?.hasNews == true { unread.append(id) }
        }
        shard.effects.reading.removeAll(keepingCapacity: true)
        for id in shard.effects.close {
            guard let connection = connections.remove(id) else { continue }
            context.connections.remove()
            if phase == .draining { answerUnread(connection) }
            if let micro = connection.micro {
                micro.daemon.drop(micro)
            } else if case .handshaking = connection.kind {
                handshakeFailed(id, connection, unfinishedHandshake)
            } else if connection.ended, connection.tls?.isHeld != true {
                connection.tls?.end()
                close(connection.fd)
            } else {
                linger(connection.fd, connection.tls)
            }
        }
        shard.effects.close.removeAll(keepingCapacity: true)
        if !shard.effects.logins.isEmpty { submitLogins() }
        if let review = shard.effects.reviewed {
            shard.effects.reviewed = nil
            let ended = context.reviews.add(review, from: index)
            if let ended { context.log.write(.info, "permissions in force", ended) }
        }
        for record in shard.effects.log {
            if record.isFrequent {
                context.frequent.write(record, now: now.monotonic, log: context.log)
            } else {
                context.log.write(record)
            }
        }
        shard.effects.log.removeAll(keepingCapacity: true)
    }

    /// Has credentials looked at on another thread.
    private func submitLogins() {
        var requests: [LoginRequest] = []
        swap(&requests, &shard.effects.logins)
        for request in requests where context.logins?.submit(request, from: index, now: now.monotonic) != true {
            shard.authenticated(request.ticket, .busy, now: now)
        }
    }

    /// Why a handshake that was under way is given up.
    private var unfinishedHandshake: String {
        phase == .draining ? "the broker is shutting down" : "it did not come to its end in time"
    }

    /// Writes once to each connection that had output when this turn's inputs were done. Where they are many, some of
    /// them have their turn later.
    func writeOutput() {
        if flushed == flushing.count {
            flushing.removeAll(keepingCapacity: true)
            flushed = 0
            swap(&flushing, &shard.effects.flush)
        } else {
            flushing += shard.effects.flush
            shard.effects.flush.removeAll(keepingCapacity: true)
        }
        let end = min(flushing.count, flushed + ShardLoop.flushSlice)
        var bytes = 0
        while flushed < end, bytes < ShardLoop.flushBytes {
            let id = flushing[flushed]
            flushed += 1
            guard let connection = connections[id] else { continue }
            if case .handshaking = connection.pointee.kind {
                refuseHandshake(id, unfinishedHandshake)
                continue
            }
            let count = shard.gather(id, into: pieces)
            if count > 0 {
                bytes += write(id, connection, UnsafeBufferPointer(rebasing: pieces[..<count]))
            } else if let micro = connection.pointee.micro {
                micro.daemon.proceed(micro)
            }
        }
        if flushed > 16 << 10 {
            flushing.removeFirst(flushed)
            flushed = 0
        }
        // As before a read: what is in the mail comes ahead of what clients ask here.
        if http1.isDue, takeMail() { http1.runDue { isTurnOver } }
    }

    /// Returns how many bytes the socket took.
    private func write(
        _ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>,
        _ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>
    ) -> Int {
        var offered = 0
        for piece in pieces { offered += piece.count }
        let result: WriteResult
        var isHeld = false
        if let tls = connection.pointee.tls {
            // A relay may have left a record.
            result = tls.isHeld ? .blocked : tls.write(pieces, scratch: buffer)
            isHeld = tls.isHeld
        } else {
            result = Socket.write(connection.pointee.fd, pieces)
        }
        let written: Int
        switch result {
        case .bytes(let count): written = count
        case .blocked: written = 0
        case .failed(let error):
            lose(id, error: error)
            return 0
        }
        let blocked = written < offered || isHeld
        if blocked {
            connection.pointee.blocked = true
            watch(id, connection.pointee)
        }
        shard.wrote(written, blocked: blocked, on: id, now: now)
        return written
    }

    func post(_ batch: [ShardMessage], to shard: Int) { context.inboxes[shard].push(.mail(batch)) }

    private func tellIdle() {
        guard phase == .draining, shard.isIdle, connections.count == 0, lingering.count == 0,
            http1.count == 0, relays.count == 0, arrivals.isEmpty
        else { return }
        phase = .idle
        context.acceptor.push(.idle(undelivered: shard.undelivered))
    }

    private func closeAll() {
        let count = context.connections
        connections.removeAll { connection in
            if connection.micro == nil { close(connection.fd) }
            count.remove()
        }
        http1.stop()
        relays.closeAll()
        for (socket, _) in arrivals { discard(socket) }
        lingering.closeAll()
        // What came behind `stop`, or while the loop failed.
        inbox.drain { mail.append($0) }
        for item in mail {
            switch item {
            case .accepted(let fd, _, _, _):
                close(fd)
                count.remove()
            case .handedOver(let socket, _): discard(socket)
            default: break
            }
        }
    }
}
