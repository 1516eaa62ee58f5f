// Acceptor: the thread that accepts connections, distributes them to the shards round robin, and runs a shutdown:
//
//     serving ──drain──▶ draining ──all shards idle, or timeout──▶ stopped
//        └──────────────stop, or a shard failed──────────────────────▲

import Bytes
import Core
import EventLoop
import Glibc

/// The state of the acceptor's thread. Belongs to the thread that made it.
final class Acceptor {
    /// Items that other threads put into the acceptor's inbox.
    enum Command: Sendable {
        case drain
        /// Maximum nanoseconds of a drain that has not begun yet.
        case drainTime(UInt64)
        case stop
        /// A shard refused an accepted connection.
        case refuse(RefusedConnection)
        /// A draining shard has no connections left; this many messages never received credit.
        case idle(undelivered: UInt64)
        /// A shard's loop failed.
        case failed(shard: Int, SystemError)
        /// A probe from the watchdog, as for shards.
        case ping
    }

    /// How the broker ended.
    enum Outcome: Sendable {
        /// All connections had ended; this many messages never received credit.
        case drained(undelivered: UInt64)
        case timedOut
        case stopped
        case failed
    }

    private let listeners: [Listener]
    private let context: LoopContext
    private var drainTime: UInt64
    private var poller: Poller
    private var nextShard = 0
    private var idleShards = 0
    private var undelivered: UInt64 = 0
    private var drainDeadline: UInt64?
    private var outcome: Outcome?
    /// When accepting resumes after a lack of file descriptors or memory.
    private var resumeAt: UInt64?
    private var failures = FailureTally(.warning, "cannot accept connections")
    /// Refused connections, and their log tallies by reason.
    private var refused: RefusedSockets
    private var spare = SpareFiles()
    private var refusals: [String: FailureTally] = [:]
    private let scratch: UnsafeMutableRawBufferPointer

    /// Maximum number of connections accepted from one listener before the others and the inbox are served.
    private static let quantum = 64
    /// Bytes of refused connections that are discarded at a time.
    private static let discarded = 16 << 10
    /// How long accepting pauses if the process has no file descriptors left, in nanoseconds: long enough not to spin,
    /// short enough that clients, which wait in the kernel's backlog, hardly notice.
    private static let pause: UInt64 = 100_000_000

    init(listeners: [Listener], context: LoopContext, drainTime: UInt64) throws(SystemError) {
        let poller = try Poller()
        try poller.add(context.acceptor.descriptor, token: Token.inbox.rawValue, interest: .read)
        for (index, listener) in listeners.enumerated() {
            try poller.add(listener.socket, token: Token.listener(UInt32(index)).rawValue, interest: .read)
        }
        refused = RefusedSockets(limit: context.files.refused)
        scratch = .allocate(byteCount: Acceptor.discarded, alignment: 16)
        self.listeners = listeners
        self.context = context
        self.drainTime = drainTime
        self.poller = poller
        spare.refill(below: context.files.admin.lowerBound)
    }

    deinit {
        spare.closeAll()
        scratch.deallocate()
    }

    /// Runs until the broker has ended; the shards have been sent `stop` by then. Does not close the listeners if it
    /// throws.
    func run() throws(SystemError) -> Outcome {
        defer { refused.closeAll() }
        while outcome == nil { try turn() }
        if drainDeadline == nil { closeListeners() }
        for inbox in context.inboxes { inbox.push(.stop) }
        return outcome!
    }

    private func turn() throws(SystemError) {
        let count = try poller.wait(timeout: timeout)
        let now = Clock.monotonic()
        for event in 0..<count {
            let (token, ready) = poller[event]
            switch Token(rawValue: token) {
            case .inbox:
                context.acceptor.clearWake()
                context.acceptor.drain { obey($0, now: now) }
            case .listener(let place):
                if drainDeadline == nil, resumeAt == nil { try accept(from: listeners[Int(place)], now: now) }
            case .connection(let id): refused.advance(id.generation, context.limits, now: now, poller)
            case .lingering(let number): refused.advanceLingering(number, ready, scratch: scratch, poller)
            case .micro, .relay, .relayInner: break
            }
        }
        if let resumeAt, resumeAt <= now {
            self.resumeAt = nil
            if drainDeadline == nil { try watch(.read) }
        }
        refused.expire(now: now)
        spare.refill(below: context.files.admin.lowerBound)
        // Refused clients may not have read their answer yet.
        if idleShards == context.inboxes.count, !refused.isLingering {
            outcome = outcome ?? .drained(undelivered: undelivered)
        }
        if let drainDeadline, drainDeadline <= now, outcome == nil { outcome = .timedOut }
        failures.report(now: now, log: context.log)
        for reason in refusals.keys { refusals[reason]?.report(now: now, log: context.log) }
    }

    private var timeout: UInt64? {
        var deadline = min(resumeAt ?? .max, drainDeadline ?? .max, failures.deadline ?? .max, refused.deadline)
        for tally in refusals.values { deadline = min(deadline, tally.deadline ?? .max) }
        if deadline == .max { return nil }
        let now = Clock.monotonic()
        return deadline > now ? deadline - now : 0
    }

    private func obey(_ command: Command, now: UInt64) {
        switch command {
        case .drain:
            if drainDeadline != nil || outcome != nil { return }
            drainDeadline = now + drainTime
            refuseBacklog(now: now)
            closeListeners()
            for inbox in context.inboxes { inbox.push(.drain) }
            context.admin?.push(.draining)
        case .drainTime(let time): drainTime = time
        case .stop: outcome = outcome ?? .stopped
        case .refuse(let connection):
            context.connections.note(connection.cause)
            refuse(connection, now: now)
        case .idle(let undelivered):
            idleShards += 1
            self.undelivered &+= undelivered
        case .ping: context.pulse.answer()
        case .failed(let shard, let error):
            context.log.write(.error, "shard failed", [("shard", shard), ("cause", error.description)])
            outcome = .failed
        }
    }

    private func accept(from listener: Listener, now: UInt64) throws(SystemError) {
        /// Set if the next connection uses a spare descriptor, to be refused for this error.
        var shortage: Int32?
        for _ in 0..<Acceptor.quantum {
            let accepted: (fd: Int32, peer: SocketAddress)?
            do throws(SystemError) {
                accepted = try Socket.accept(listener.socket)
            } catch {
                let isShort = error.code == EMFILE || error.code == ENFILE
                // Refused clients give way to newly refused ones.
                if isShort, shortage == nil, spare.release() || refused.giveWay() {
                    shortage = error.code
                    continue
                }
                failures.count(error.cause + advice(error.code))
                context.connections.noteShortage()
                resumeAt = now + Acceptor.pause
                try watch([])
                return
            }
            guard let (fd, peer) = accepted else { return }
            if let code = shortage {
                shortage = nil
                failures.count(SystemError.text(of: code) + advice(code))
                context.connections.note(.files)
                refuse(fd, peer.description, at: listener, .files, now: now)
                continue
            }
            if context.files.admin.contains(fd) {
                // Refused connections use only a few of the admin listener's files, however many there are.
                if refused.count >= FileShares.borrowed { _ = refused.giveWay() }
                failures.count(SystemError.text(of: EMFILE) + advice(EMFILE))
                context.connections.note(.files)
                refuse(fd, peer.description, at: listener, .files, now: now)
                continue
            }
            guard context.connections.add() else {
                let cause = ConnectionRefusal.connections(limit: context.connections.limit)
                refuse(fd, peer.description, at: listener, cause, now: now)
                continue
            }
            // The timeout also applies to a peer that keeps its window closed, so it is the longest lifetime that any
            // client may request; keepalives enforce shorter times.
            Socket.configure(fd, userTimeout: Int32(clamping: context.limits.lifetime.upperBound / 1_000_000))
            context.inboxes[nextShard].push(
                .accepted(
                    fd: fd, peer: peer.description, wireProtocol: listener.wireProtocol, isSecure: listener.isSecure))
            nextShard = (nextShard + 1) % context.inboxes.count
        }
    }

    private func advice(_ code: Int32) -> String {
        switch code {
        case EMFILE: "; raise the limit on open files (ulimit -n, or LimitNOFILE= in the unit)"
        case ENFILE: "; raise the machine's limit on open files (sysctl fs.file-max), or stop other processes"
        default: ""
        }
    }

    private func refuse(
        _ fd: Int32, _ peer: String, at listener: Listener, _ cause: ConnectionRefusal, now: UInt64
    ) {
        refuse(
            RefusedConnection(
                fd: fd, peer: peer, wireProtocol: listener.wireProtocol, isSecure: listener.isSecure, cause: cause),
            now: now)
    }

    private func refuse(_ connection: RefusedConnection, now: UInt64) {
        let reason = connection.cause.reason
        refusals[reason, default: FailureTally(.warning, "connections refused")].count([
            ("reason", reason), ("cause", connection.cause.message), ("peer", connection.peer),
        ])
        context.log.write(
            .debug, "connection refused", [("protocol", connection.wireProtocol.name), ("peer", connection.peer)])
        refused.refuse(connection, context.limits, now: now, poller)
    }

    /// Answers connections in the backlog when the drain begins: closing the listener would reset them without an
    /// explanation.
    private func refuseBacklog(now: UInt64) {
        for listener in listeners {
            for _ in 0..<RefusedSockets.limit {
                guard let (fd, peer) = try? Socket.accept(listener.socket) else { break }
                context.connections.note(.draining)
                refuse(fd, peer.description, at: listener, .draining, now: now)
            }
        }
    }

    private func watch(_ interest: Interest) throws(SystemError) {
        for (index, listener) in listeners.enumerated() {
            try poller.modify(listener.socket, token: Token.listener(UInt32(index)).rawValue, interest: interest)
        }
    }

    private func closeListeners() {
        Listener.closeAll(listeners)
    }
}
