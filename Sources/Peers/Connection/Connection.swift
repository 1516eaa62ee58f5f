// Connection: one peer as the engine sees it – protocol state, output, streams, and the moments that its time limits
// count from.

import Bytes
import RSocket

/// The other end of a connection.
struct RemoteEnd {
    /// Address and port. They change when a session goes on from elsewhere.
    private(set) var peer: String
    /// The address alone, which `connectionsPerAddress` counts by.
    private(set) var address: String
    /// Who the peer is, by the certificate that it has shown.
    private(set) var certificate: PeerCertificate?
    /// It came over TLS.
    private(set) var isSecured = false

    init(peer: String, address: String) {
        self.peer = peer
        self.address = address
    }

    mutating func secure(_ certificate: PeerCertificate?) {
        assert(!isSecured)
        self.certificate = certificate
        isSecured = true
    }

    mutating func move(to peer: String, _ address: String) {
        self.peer = peer
        self.address = address
    }
}

/// In which lists of its shard a connection is, each of which has it once at most.
struct ShardLists {
    /// The next tick looks at it.
    var isTouched = false
    /// It is over, and streams of it are left to end.
    var isEnding = false
    /// The driver is to gather its output.
    var isFlushing = false
    /// Its output has room that no socket made.
    var isRoomy = false
}

final class Connection: Timed {
    let handle: Handle
    var remote: RemoteEnd
    var login = Login()
    var rsocket: ServerConnection
    /// What it speaks, if that is not RSocket.
    let http: HTTPConnection?
    var output: Output
    var lifecycle: Lifecycle
    /// It can be resumed.
    var session: Session?
    var streams = ConnectionStreams()
    var waiters = OutputWaiters()
    /// When its peer was heard of, and what it leaves undone.
    var liveness: Liveness
    /// What of its input waits.
    var input = InputState()
    var lists = ShardLists()
    var timerPlace = -1
    /// What the socket has brought and taken.
    var bytes = (in: UInt64(0), out: UInt64(0))

    init(
        handle: Handle, peer: String, address: String, wireProtocol: WireProtocol, limits: Limits, pool: BlockPool,
        now: UInt64
    ) {
        self.handle = handle
        remote = RemoteEnd(peer: peer, address: address)
        lifecycle = Lifecycle(openedAt: now)
        liveness = Liveness(now: now)
        rsocket = ServerConnection(limits: limits.ofConnection)
        http = wireProtocol == .http ? HTTPConnection(pool: pool) : nil
        output = Output(pool: pool, isRSocket: wireProtocol == .rsocket)
    }

    var id: ConnectionID { ConnectionID(index: handle.index, generation: handle.generation) }
    var peer: String { remote.peer }
    var address: String { remote.address }
    var certificate: PeerCertificate? { remote.certificate }
    var principal: Principal? { login.principal }
    var meter: Meter? { login.meter }
    var isExpelled: Bool { login.isExpelled }
    var phase: Lifecycle.Phase { lifecycle.phase }
    var isOpen: Bool { lifecycle.isOpen }
    var hasEnded: Bool { lifecycle.hasEnded }
    var isClosed: Bool { lifecycle.isClosed }
    /// Bytes that go as soon as the socket takes them.
    var handedOver: Int { output.count + (http?.bodies.ready ?? 0) }
    /// More may be handed over where `limit` bytes may wait.
    func hasRoom(_ limit: Int) -> Bool { room(limit) > 0 }
    /// How much more may be handed over where `limit` bytes may wait; 0 or less is nothing.
    func room(_ limit: Int) -> Int { output.room(limit) - (http?.bodies.ready ?? 0) }
    /// Bytes of what was read and not dealt with, and of answers, that count as the broker's memory.
    var bufferedBytes: Int {
        (http?.bufferedBytes ?? rsocket.bufferedBytes) + output.control.capacity
    }
    /// It has no socket, and may get another one.
    var isDetached: Bool { session?.detachedAt != nil }
    /// All that was to be written has gone.
    var isWritten: Bool { output.isEmpty && http?.wantsOutput != true }
    /// How many messages its subscriptions were handed, and how many more wait for credit.
    var standing: (delivered: UInt64, waiting: UInt64) {
        var standing = (delivered: UInt64(0), waiting: UInt64(0))
        for stream in streams where stream.kind == .subscriber {
            let subscriber = stream.asSubscriber
            guard subscriber.hasJoined else { continue }
            standing.delivered &+= subscriber.cursor.delivered
            standing.waiting &+= UInt64(subscriber.cursor.waiting)
        }
        return standing
    }

    /// The thread stood still for so long in all, until `until` last: that does not count against the peer.
    func excuse(_ stoodStill: (time: UInt64, until: UInt64), now: UInt64) {
        guard let excuse = liveness.excuse(stoodStill, now: now) else { return }
        if let session { session.detachedAt = session.detachedAt.map(excuse) }
        if let http1 = http?.http1 { http1.quietSince = excuse(http1.quietSince) }
    }

    /// When one of its limits of time may be reached; `soon` where it has to be looked at in every tick.
    func timeLimit(_ limits: Limits, soon: UInt64) -> UInt64 {
        if let since = session?.detachedAt { return since.addingClamped(limits.resumeTime) }
        if session != nil, hungryCount > 0 || waiters.listingCount > 0 { return soon }
        var due = UInt64.max
        func add(_ since: UInt64?, _ time: UInt64) { if let since { due = Swift.min(due, since.addingClamped(time)) } }
        add(liveness.unreadSince, limits.unreadTime)
        add(http?.deadlines.time, 0)
        add(http?.heartbeats.time, 0)
        if let http1 = http?.http1 {
            if http1.isIdle || http1.isComplete { add(http1.quietSince, limits.httpSilence) }
            return due
        }
        add(liveness.lastHeard, liveness.probed ? liveness.lifetime : liveness.lifetime / 2)
        add(rsocket.oldestReassembly, limits.reassemblyTime)
        if let session = http?.session {
            if http?.bodies.isCrowded == true { return soon }
            if session.pointee.hasPartialFrame { add(liveness.lastHeard, limits.reassemblyTime) }
            add(session.pointee.deadline, 0)
        }
        return due
    }

    /// Nothing of it waits for its peer to read, or for room, but what is in its output.
    @inline(__always)
    var isAtEase: Bool {
        guard case .open = lifecycle.phase else { return false }
        return (http?.isAtEase ?? true) && session == nil && input.isReading && !input.isHeld && waiters.isEmpty
            && output.unreadAnswers == 0
    }

    func attach(_ stream: BoundStream) {
        streams.add(stream)
        guard let http else {
            stream.principal = principal ?? .nobody
            stream.meter = meter
            return rsocket.setHandle(stream.handle.index, stream: stream.stream)
        }
        stream.exchange = http.exchange(of: stream.stream)
        if let exchange = stream.exchange {
            exchange.bound = stream
            if stream.isLasting { http.exchanges.countLasting(1) }
        }
        stream.principal = stream.exchange?.principal ?? .nobody
        stream.meter = stream.exchange?.meter
    }

    /// Nothing more of the engine's is said on a stream. RSocket's is over with that; HTTP's lasts until its response
    /// is written, which its session sees to.
    func close(stream: UInt32) {
        if http == nil { rsocket.closeStream(stream) }
    }

    func detach(_ stream: BoundStream) { streams.remove(stream) }

    func add(channel publisher: Publisher) { streams.add(channel: publisher) }

    func remove(channel publisher: Publisher) { streams.remove(channel: publisher) }

    var hungryCount: Int { waiters.hungryCount }

    func add(hungry subscriber: Subscriber) { waiters.add(hungry: subscriber) }

    /// A hungry subscriber is gone.
    func leave(hungry subscriber: Subscriber) { waiters.leave(hungry: subscriber) }

    /// "127.0.0.1:50312" and "[::1]:50312" without the port.
    static func address(of peer: String) -> String {
        guard let colon = peer.lastIndex(of: ":") else { return peer }
        return String(peer[..<colon])
    }
}

extension UInt64 {
    /// A moment that something has lasted since, when `time` nanoseconds of that do not count.
    func excused(_ time: UInt64, now: UInt64) -> UInt64 {
        Swift.max(self, Swift.min(addingClamped(time), now))
    }
}
