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
        /// A draining shard has no connection left.
        case idle
        /// A shard's loop ended by itself.
        case failed(shard: Int, SystemError)
        /// As the shards', of the acceptor itself.
        case ping
    }

    /// How the broker came to its end.
    enum Outcome: Sendable {
        /// Every connection had ended.
        case drained
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
    private var drainDeadline: UInt64?
    private var outcome: Outcome?
    /// Accepting failed for want of file descriptors or memory, and goes on then.
    private var resumeAt: UInt64?
    private var refusals = FailureTally(.warning, "cannot accept connections")

    private static let inboxToken = UInt64.max
    /// Connections accepted from one listener before the others and the inbox have their turn.
    private static let quantum = 64
    /// How long accepting pauses when the process has no file descriptor left: long enough not to spin, short enough
    /// that waiting clients hardly notice. They wait in the kernel's backlog.
    private static let pause: UInt64 = 100_000_000

    init(listeners: [Listener], context: LoopContext, drainTime: UInt64) throws(SystemError) {
        let poller = try Poller()
        try poller.add(context.acceptor.descriptor, token: Acceptor.inboxToken, interest: .read)
        for (index, listener) in listeners.enumerated() {
            try poller.add(listener.socket, token: UInt64(index), interest: .read)
        }
        self.listeners = listeners
        self.context = context
        self.drainTime = drainTime
        self.poller = poller
    }

    /// Runs until the broker has ended; the shards have been told to stop then. Does not close the listeners when it
    /// throws.
    func run() throws(SystemError) -> Outcome {
        while outcome == nil { try turn() }
        if drainDeadline == nil { closeListeners() }
        for inbox in context.inboxes { inbox.push(.stop) }
        return outcome!
    }

    private func turn() throws(SystemError) {
        let count = try poller.wait(timeout: timeout)
        let now = Clock.monotonic()
        for event in 0..<count {
            let token = poller[event].token
            if token == Acceptor.inboxToken {
                context.acceptor.clearWake()
                context.acceptor.drain { obey($0, now: now) }
            } else if drainDeadline == nil, resumeAt == nil {
                try accept(from: listeners[Int(token)], now: now)
            }
        }
        if let resumeAt, resumeAt <= now {
            self.resumeAt = nil
            if drainDeadline == nil { try watch(.read) }
        }
        if let drainDeadline, drainDeadline <= now, outcome == nil { outcome = .timedOut }
        refusals.tell(now: now, log: context.log)
    }

    private var timeout: UInt64? {
        let deadline = min(resumeAt ?? .max, drainDeadline ?? .max, refusals.deadline ?? .max)
        if deadline == .max { return nil }
        let now = Clock.monotonic()
        return deadline > now ? deadline - now : 0
    }

    private func obey(_ command: Command, now: UInt64) {
        switch command {
        case .drain:
            if drainDeadline != nil || outcome != nil { return }
            drainDeadline = now + drainTime
            closeListeners()
            for inbox in context.inboxes { inbox.push(.drain) }
            context.admin?.push(.draining)
        case .drainTime(let time): drainTime = time
        case .stop: outcome = outcome ?? .stopped
        case .idle:
            idleShards += 1
            if idleShards == context.inboxes.count { outcome = outcome ?? .drained }
        case .ping: context.pulse.answer()
        case .failed(let shard, let error):
            context.log.write(.error, "shard failed", [("shard", String(shard)), ("cause", error.description)])
            outcome = .failed
        }
    }

    private func accept(from listener: Listener, now: UInt64) throws(SystemError) {
        for _ in 0..<Acceptor.quantum {
            let accepted: (fd: Int32, peer: SocketAddress)?
            do throws(SystemError) {
                accepted = try Socket.accept(listener.socket)
            } catch {
                let advice = error.code == EMFILE ? "; raise the limit on open files (ulimit -n)" : ""
                refusals.count(error.cause + advice)
                context.connections.noteRefusal()
                resumeAt = now + Acceptor.pause
                try watch([])
                return
            }
            guard let (fd, peer) = accepted else { return }
            guard context.connections.add() else {
                close(fd)
                context.connections.noteRefusal()
                refusals.count("the broker has \(counted(context.connections.limit, "connection")), its limit")
                continue
            }
            // A peer that keeps its window closed has until then as well, so it is as long as any client may ask to be
            // believed in; shorter times are enforced by keepalives.
            Socket.configure(fd, userTimeout: Int32(clamping: context.limits.lifetime.upperBound / 1_000_000))
            context.inboxes[nextShard].push(
                .accepted(fd: fd, peer: peer.description, face: listener.face, isSecure: listener.isSecure))
            nextShard = (nextShard + 1) % context.inboxes.count
        }
    }

    private func watch(_ interest: Interest) throws(SystemError) {
        for (index, listener) in listeners.enumerated() {
            try poller.modify(listener.socket, token: UInt64(index), interest: interest)
        }
    }

    private func closeListeners() {
        Listener.closeAll(listeners)
    }
}
