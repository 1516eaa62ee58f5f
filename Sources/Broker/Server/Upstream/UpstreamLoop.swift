// UpstreamLoop: the thread that connects the broker to NATS. It drives one `Upstream`, which serves all shards.
//
//     shard ──requests, processed──▶ inbox of the thread ──▶ Upstream ──reports──▶ inbox of the shard
//                                                                     ──status───▶ shards and admin thread that show it

import Core
import EventLoop
import Glibc
import NATS
import TLS
import Upstream

/// What shards send to the thread.
enum UpstreamItem: Sendable {
    case requests([UpstreamRequest], from: Int)
    /// A shard has handled reports of this size in bytes.
    case processed(Int)
    case stop
}

final class UpstreamLoop {
    private static let inboxToken: UInt64 = 0
    private static let socketToken: UInt64 = 1
    /// How long a server has to accept a connection, in nanoseconds.
    static let connectTime: UInt64 = 2_000_000_000
    /// Bytes of reports that shards have not handled, above which nothing is read from NATS.
    private static let mostUnhandled = 16 << 20
    private static let readSize = 256 << 10
    /// Nanoseconds between two statuses, unless the connection is made or lost.
    private static let statusInterval: UInt64 = 1_000_000_000

    private let upstream: Upstream
    private let inbox: Inbox<UpstreamItem>
    private let shards: [Inbox<InboxItem>]
    private let admin: Inbox<AdminItem>?
    private let log: Log
    private let tls: TLSContext
    private var poller: Poller
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: readSize, alignment: 16)
    private var socket: Int32 = -1
    private var stream: TLSStream?
    private var isHandshaking = false
    private var isBlocked = false
    private var interest: Interest = []
    private var unhandled = 0
    private var isStopped = false
    /// The status that was published last, when the next one is due, and whether something has happened since.
    private var published: UpstreamStatus?
    private var statusAt: UInt64 = 0
    private var isStale = true

    init(
        _ configuration: UpstreamConfiguration, inbox: Inbox<UpstreamItem>, shards: [Inbox<InboxItem>],
        admin: Inbox<AdminItem>?, log: Log
    ) throws(SystemError) {
        self.inbox = inbox
        self.shards = shards
        self.admin = admin
        self.log = log
        tls = configuration.tls
        poller = try Poller()
        try poller.add(inbox.descriptor, token: UpstreamLoop.inboxToken, interest: .read)
        upstream = Upstream(
            configuration.options, shards: shards.count, seed: try Machine.random(), now: Clock.monotonic())
    }

    deinit {
        if socket >= 0 { close(socket) }
        buffer.deallocate()
    }

    func run() throws(SystemError) {
        do throws(SystemError) {
            while !isStopped {
                act()
                write()
                deliver()
                for record in upstream.takeLog() { log.write(record) }
                publishStatus()
                try wait()
            }
        } catch {
            fail(error.description)
            publishStatus()
            throw error
        }
    }

    /// Connects, to check the settings. Returns the state once there is a connection, and at `end` at the latest, or a
    /// little later if a server does not answer.
    func connect(until end: UInt64) throws(SystemError) -> UpstreamStatus {
        statusAt = end
        while !upstream.isConnected, Clock.monotonic() < end {
            act()
            write()
            try wait()
        }
        return upstream.status
    }

    private func wait() throws(SystemError) {
        try updateInterest()
        let now = Clock.monotonic()
        let deadline = isStale ? Swift.min(upstream.deadline, statusAt) : upstream.deadline
        let count = try poller.wait(timeout: deadline - Swift.min(now, deadline))
        if count > 0 { isStale = true }
        for event in 0..<count {
            let (token, ready) = poller[event]
            if token == UpstreamLoop.inboxToken {
                inbox.clearWake()
            } else {
                handle(ready)
            }
        }
        inbox.drain { take($0) }
        let later = Clock.monotonic()
        guard upstream.deadline <= later else { return }
        upstream.tick(now: later)
        isStale = true
    }

    /// Sends the status to those that show it, if it has changed: once a second, or at once if the connection was made
    /// or lost.
    private func publishStatus() {
        let now = Clock.monotonic()
        guard isStale, now >= statusAt || upstream.isConnected != published?.isConnected else { return }
        isStale = false
        statusAt = now + UpstreamLoop.statusInterval
        let status = upstream.status
        guard status != published else { return }
        published = status
        admin?.push(.upstream(status))
        for shard in Shard.ownersOfUpstream(among: shards.count) { shards[shard].push(.upstreamStatus(status)) }
    }

    private func take(_ item: UpstreamItem) {
        switch item {
        case .requests(let requests, let shard): upstream.handle(requests, from: shard, now: Clock.monotonic())
        case .processed(let bytes): unhandled -= bytes
        case .stop: isStopped = true
        }
    }

    private func deliver() {
        upstream.takeReports { reports, shard in
            let size = reports.reduce(0) { $0 + $1.size }
            unhandled += size
            shards[shard].push(.upstream(reports, size: size))
        }
    }

    // The socket

    private func act() {
        while true {
            let actions = upstream.takeActions()
            if actions.isEmpty { return }
            for action in actions {
                switch action {
                case .connect(let server): connect(to: server)
                case .startTLS(let server): startTLS(server)
                case .close: closeSocket()
                }
            }
        }
    }

    private func connect(to server: NATSServerAddress) {
        do throws(SystemError) {
            socket = try Socket.connect(
                to: Endpoint(host: server.host, port: server.port), timeout: UpstreamLoop.connectTime)
            interest = .read
            try poller.add(socket, token: UpstreamLoop.socketToken, interest: interest)
            upstream.opened(now: Clock.monotonic())
        } catch {
            closeSocket()
            lost(error.description)
        }
    }

    private func startTLS(_ server: NATSServerAddress) {
        do throws(TLSError) {
            stream = try TLSStream(connecting: socket, to: server.tlsName, tls, .none)
            isHandshaking = true
            shakeHands()
        } catch {
            fail(error.description)
        }
    }

    private func shakeHands() {
        guard let stream else { return }
        switch stream.handshake() {
        case .done:
            isHandshaking = false
            isBlocked = false
            upstream.secured(now: Clock.monotonic())
            act()
        case .wantsRead: isBlocked = false
        case .wantsWrite: isBlocked = true
        case .failed:
            let cause = stream.failure ?? "it closed the socket"
            fail("The TLS handshake with the NATS server failed: \(cause).")
        }
    }

    private func handle(_ ready: Readiness) {
        if socket < 0 { return }
        if ready.contains(.writable) { isBlocked = false }
        if isHandshaking { return shakeHands() }
        if !ready.isDisjoint(with: [.readable, .dead]) { read() }
    }

    private func read() {
        switch stream.map({ $0.read(into: buffer) }) ?? Socket.read(socket, into: buffer) {
        case .bytes(let count):
            upstream.received(UnsafeRawBufferPointer(rebasing: buffer[..<count]), now: Clock.monotonic())
        case .blocked: break
        case .end: fail("The NATS server closed the connection.")
        case .failed(let error): fail("The connection to the NATS server failed: \(SystemError.text(of: error)).")
        }
        act()
    }

    private func write() {
        guard socket >= 0, !isHandshaking else { return }
        while !isBlocked {
            if let stream, stream.isHeld {
                if note(stream.flush()) == nil { return }
                continue
            }
            let pending = upstream.pending
            if pending.isEmpty { return }
            let result =
                stream.map { $0.write(record: UnsafeRawBufferPointer(rebasing: pending.prefix(TLSStream.record))) }
                ?? Socket.write(socket, pending)
            guard let count = note(result) else { return }
            upstream.sent(count, now: Clock.monotonic())
        }
    }

    /// Returns how many bytes were written; nil if the socket takes none now, or has failed.
    private func note(_ result: WriteResult) -> Int? {
        switch result {
        case .bytes(let count): return count
        case .blocked: isBlocked = true
        case .failed(let error):
            fail("The connection to the NATS server failed: \(SystemError.text(of: error)).")
            act()
        }
        return nil
    }

    private func updateInterest() throws(SystemError) {
        guard socket >= 0 else { return }
        var wanted: Interest = isBlocked ? .write : []
        if unhandled <= UpstreamLoop.mostUnhandled { wanted.insert(.read) }
        if wanted == interest { return }
        interest = wanted
        try poller.modify(socket, token: UpstreamLoop.socketToken, interest: wanted)
    }

    private func fail(_ reason: String) {
        closeSocket()
        lost(reason)
    }

    private func lost(_ reason: String) {
        upstream.closed(reason, now: Clock.monotonic())
        isStale = true
    }

    private func closeSocket() {
        if socket >= 0 { close(socket) }
        socket = -1
        stream = nil
        isHandshaking = false
        isBlocked = false
    }
}
