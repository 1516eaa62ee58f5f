// Acceptor: the thread that takes connections in, deals them to the shards in turn, and sees a shutdown through:
//
//     serving ──drain──▶ draining ──every shard idle, or time over──▶ stopped
//        └──────────────stop, or a shard failed──────────────────────────▲

import Bytes
import Core
import EventLoop
import Glibc

/// Belongs to the thread that made it.
final class Acceptor {
    /// What other threads put into the acceptor's inbox.
    enum Command: Sendable {
        case drain
        /// Nanoseconds that a drain may take, if it begins later.
        case drainTime(UInt64)
        case stop
        /// A shard does not serve a connection that was accepted.
        case refuse(RefusedConnection)
        /// A draining shard has no connection left; so many messages waited for credit that did not come.
        case idle(undelivered: UInt64)
        /// A shard's loop ended by itself.
        case failed(shard: Int, SystemError)
        /// As the shards', of the acceptor itself.
        case ping
    }

    /// How the broker came to its end.
    enum Outcome: Sendable {
        /// Every connection had ended; so many messages waited for credit that did not come.
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
    /// Accepting failed for want of file descriptors or memory, and goes on then.
    private var resumeAt: UInt64?
    private var failures = FailureTally(.warning, "cannot accept connections")
    /// Connections that are refused, and what the log is told of them, by reason.
    private var refused: RefusedSockets
    private var spare = SpareFiles()
    private var refusals: [String: FailureTally] = [:]
    private let scratch: UnsafeMutableRawBufferPointer

    /// Connections accepted from one listener before the others and the inbox have their turn.
    private static let quantum = 64
    /// Bytes of refused connections that are thrown away at a time.
    private static let discarded = 16 << 10
    /// How long accepting pauses when the process has no file descriptor left: long enough not to spin, short enough
    /// that waiting clients hardly notice. They wait in the kernel's backlog.
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

    /// Runs until the broker has ended; the shards have been told to stop then. Does not close the listeners when it
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
        // Those that have been sent an answer may still have to read it.
        if idleShards == context.inboxes.count, !refused.isLingering {
            outcome = outcome ?? .drained(undelivered: undelivered)
        }
        if let drainDeadline, drainDeadline <= now, outcome == nil { outcome = .timedOut }
        failures.tell(now: now, log: context.log)
        for reason in refusals.keys { refusals[reason]?.tell(now: now, log: context.log) }
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
        /// Why the next connection gets a descriptor that was kept to refuse it.
        var shortage: Int32?
        for _ in 0..<Acceptor.quantum {
            let accepted: (fd: Int32, peer: SocketAddress)?
            do throws(SystemError) {
                accepted = try Socket.accept(listener.socket)
            } catch {
                let isShort = error.code == EMFILE || error.code == ENFILE
                // Who was refused gives way to who is to be told so now.
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
                // Those that read their refusal take few of the admin listener's files, however many come.
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
            // A peer that keeps its window closed has until then as well, so it is as long as any client may ask to be
            // believed in; shorter times are enforced by keepalives.
            Socket.configure(fd, userTimeout: Int32(clamping: context.limits.lifetime.upperBound / 1_000_000))
            context.inboxes[nextShard].push(
                .accepted(
                    fd: fd, peer: peer.description, wireProtocol: listener.wireProtocol, isSecure: listener.isSecure))
            nextShard = (nextShard + 1) % context.inboxes.count
        }
    }

    private func advice(_ code: Int32) -> String {
        switch code {
        case EMFILE: "; raise the limit on open files (ulimit -n, LimitNOFILE= of a unit)"
        case ENFILE: "; raise the machine's limit on open files (sysctl fs.file-max), or stop who has so many open"
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

    /// Answers those that had connected when the drain began, and were not accepted yet: closing their listener would
    /// reset them without a word.
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
