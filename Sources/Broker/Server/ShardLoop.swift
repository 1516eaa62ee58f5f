// ShardLoop: one thread's loop around one engine. It waits for sockets, timers and other threads, and then takes a turn
// in the order of TurnDriver: it reads one quantum from each ready socket, and makes one write per connection with
// output.
//
// What remains of a turn (unread bytes, unwritten output, events for which there was no time) is handled in the next
// turn, after everything else.

import Core
import EventLoop
import Glibc
import TLS

/// Belongs to the thread that made it. Generic, so that tests can use their own engine; the broker's is specialized in
/// this module, without dynamic calls.
final class ShardLoop<Shard: Engine>: TurnDriver {
    var context: LoopContext
    let shard: Shard
    let inbox: Inbox<InboxItem>
    let index: Int
    private(set) var figures = LoopStatistics()
    var poller: Poller
    var connections = ConnectionTable()
    var lingering: LingerQueue
    let buffer: UnsafeMutableRawBufferPointer
    private let pieces: UnsafeMutableBufferPointer<UnsafeRawBufferPointer>
    /// The connections to write to; the engine collects further ones in the meantime.
    private var outputs = OutputQueue()
    /// Items from the inbox that have not been handled yet.
    var inboxItems: [InboxItem] = []
    /// The poller's events that have not been handled yet.
    private var events = 0..<0
    let http1 = HTTP1Drivers<Shard>()
    /// HTTP/1.1 connections whose client has closed its sending side, which the library may have missed.
    var ended: [ConnectionID] = []
    /// Sockets that arrived for connections of this loop. They are adopted only after bytes read from other sockets
    /// have been handled, because those may have come from a socket that is being replaced.
    var arrivals: [(MovedSocket, Handover)] = []
    /// Connections with bytes to read that the poller does not know about, because TLS has buffered them.
    var unread: [ConnectionID] = []
    /// HTTP/1.1 connections that have not been handed to the library yet.
    var newcomers: ArraySlice<ConnectionID> = []
    var inputs = TurnInputs()
    /// Operator queries. Each turn answers one, after the sockets. No client can depend on an answer that has not been
    /// sent.
    var queries: [(job: UInt64, query: ShardQuery)] = []
    var failedHandshakes = FailureTally(.info, "TLS handshakes failed")
    /// HTTP/1.1 connections over TLS.
    var relays = Relays()
    /// What the store will report.
    var storeReports = StoreReports()
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

    /// Runs until it receives `stop`, then closes all sockets.
    func run() throws(SystemError) {
        defer { closeAll() }
        while phase != .stopped { try step() }
    }

    /// Waits until there is something to do, and takes a turn.
    func step() throws(SystemError) {
        // Events left from the last turn come first.
        if events.isEmpty { events = 0..<(try poller.wait(timeout: timeout)) }
        now = Instant(monotonic: Clock.monotonic(), wall: Clock.wall())
        turn()
        reportIdle()
        let end = Clock.monotonic()
        figures.record(end - now.monotonic, end: end, work: Clock.thread)
    }

    // MARK: A turn

    var engine: Shard { shard }

    func readSockets() {
        inputs.begin(until: Clock.monotonic() + Limits.turnTime, hasEvents: nextSocket() != nil)
        // If the previous turn read nothing, this one reads at least once, however long the inbox takes.
        var mustRead = inputs.wereDelayed
        while let event = nextSocket(), takeInbox(all: mustRead), mustRead || !isTurnOver {
            events = event + 1..<events.upperBound
            (mustRead, inputs.areDelayed) = (false, false)
            handle(event)
        }
        if !unread.isEmpty, clearInbox() { readUnread() }
        if !newcomers.isEmpty { adoptNewcomers() }
    }

    /// The next event of a socket. The inbox's own event is not one: it says only that there are items.
    private func nextSocket() -> Int? {
        while let event = events.first {
            guard poller[event].token == Token.inbox.rawValue else { return event }
            inbox.clearWake()
            events = event + 1..<events.upperBound
        }
        return nil
    }

    func adoptSockets() {
        if !arrivals.isEmpty { takeArrivals() }
    }

    func fireTimers() {
        if let deadline = shard.deadline, deadline <= now.monotonic {
            shard.fire(now: now)
            if !ended.isEmpty { reportEnds() }
            relays.expire(now: now.monotonic, limit: context.limits.httpSilence)
            failedHandshakes.report(now: now.monotonic, log: context.log)
            context.frequent.report(now: now.monotonic, log: context.log)
        }
        lingering.expire(now: now.monotonic)
    }

    /// Whether remaining inputs are left for the next turn: the engine has used its budget of work, or the whole turn,
    /// including reading and TLS, has used its time. If the previous turn left inputs waiting because of the
    /// inbox, only the time counts: the messages of two shards would otherwise delay all clients for as long as the
    /// shards send them.
    var isTurnOver: Bool { shard.isTurnOver && !inputs.wereDelayed || Clock.monotonic() >= inputs.end }

    private func handle(_ event: Int) {
        let (token, ready) = poller[event]
        switch Token(rawValue: token) {
        case .connection(let id): handle(id, ready)
        case .lingering(let number): lingering.advance(number, ready, scratch: buffer, poller)
        case .micro(let place): http1.wake(place)
        case .relay(let number): relay(number, isDead: !ready.isDisjoint(with: .dead))
        case .relayInner(let number): relay(number, isDead: false)
        case .inbox, .listener: break
        }
    }

    private var timeout: UInt64? {
        if shard.hasWork || !outputs.isEmpty || !shard.effects.flush.isEmpty || http1.isDue
            || !unread.isEmpty || !newcomers.isEmpty || !arrivals.isEmpty || !inboxItems.isEmpty
            || !queries.isEmpty
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
            // Without a read, the error would not be noticed.
            if !ready.isDisjoint(with: .dead) { lose(id, error: Socket.error(connection.pointee.fd)) }
        } else if !ready.isDisjoint(with: [.readable, .dead]) {
            read(id, connection)
        }
    }

    func read(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) {
        guard !shard.isBehind(id) else {
            // The poller reports the rest of the socket's data again.
            if connection.pointee.tls?.hasInput == true { unread.append(id) }
            return
        }
        let buffer = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(shard.readLimit(of: id)))
        let result: ReadResult
        if let tls = connection.pointee.tls {
            result = tls.read(into: buffer)
            if tls.hasInput { unread.append(id) }
        } else {
            result = Socket.read(connection.pointee.fd, into: buffer)
        }
        switch result {
        case .bytes(let count):
            // Items in the inbox may have caused what the peer sent, by way of another connection, so they come first.
            takeInbox(all: true)
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

    /// Carries out effects that concern reading, closing, logins and the log.
    func carryOut() {
        for (id, reading) in shard.effects.reading {
            guard let connection = connections[id], connection.pointee.paused == reading else { continue }
            switch connection.pointee.kind {
            case .newcomer, .http1, .handshaking: continue
            case .framed, .undecided: break
            }
            connection.pointee.paused = !reading
            watch(id, connection.pointee)
            if reading, connection.pointee.tls?.hasInput == true { unread.append(id) }
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
        if !shard.effects.store.isEmpty { submitToStore() }
        if !shard.effects.upstream.isEmpty { submitUpstream() }
        for (job, answer) in shard.effects.answers {
            context.admin?.push(.answer(job: job, shard: index, answer, figures))
        }
        shard.effects.answers.removeAll(keepingCapacity: true)
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

    /// Submits credentials to the login threads.
    private func submitLogins() {
        var requests: [LoginRequest] = []
        swap(&requests, &shard.effects.logins)
        for request in requests where context.logins?.submit(request, from: index, now: now.monotonic) != true {
            shard.authenticated(request.ticket, .busy, now: now)
        }
    }

    /// Why an unfinished handshake is aborted.
    private var unfinishedHandshake: String {
        phase == .draining ? "the broker is shutting down" : "the handshake timed out"
    }

    /// Writes once to each connection that had output at the end of this turn's inputs. If there are many, some of them
    /// are left for later turns.
    func writeOutput() {
        outputs.take(&shard.effects.flush)
        outputs.writeSome { id in
            connections[id]?.pointee.hasBulkOutput == true
        } write: { id in
            write(id)
        }
        // As before a read: items in the inbox come ahead of requests from clients.
        if http1.isDue, clearInbox() { http1.runDue { isTurnOver } }
    }

    /// Writes once to a connection; returns what that cost, in bytes.
    private func write(_ id: ConnectionID) -> Int {
        guard let connection = connections[id] else { return 0 }
        if case .handshaking = connection.pointee.kind {
            refuseHandshake(id, unfinishedHandshake)
            return 0
        }
        let count = shard.gather(id, into: pieces)
        if count > 0 { return write(id, connection, UnsafeBufferPointer(rebasing: pieces[..<count])) }
        if let micro = connection.pointee.micro { micro.daemon.proceed(micro) }
        return 0
    }

    /// Returns how many bytes the socket took, or the equivalent of the time for what was then handed over, if more.
    private func write(
        _ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>,
        _ pieces: UnsafeBufferPointer<UnsafeRawBufferPointer>
    ) -> Int {
        var offered = 0
        for piece in pieces { offered += piece.count }
        let result: WriteResult
        var isHeld = false
        if let tls = connection.pointee.tls {
            // A relay may have left an unfinished record.
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
        let before = shard.spentFeeding
        shard.wrote(written, blocked: blocked, on: id, now: now)
        let cost = Int((shard.spentFeeding - before) * Double(OutputQueue.bytes))
        connection.pointee.hasBulkOutput = max(offered, cost) > OutputQueue.small
        return max(written, cost)
    }

    func post(_ batch: [ShardMessage], to shard: Int) { context.inboxes[shard].push(.messages(batch)) }

    private func reportIdle() {
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
        // Items that came after `stop`, or while the loop failed.
        inbox.drain { inboxItems.append($0) }
        for item in inboxItems {
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
