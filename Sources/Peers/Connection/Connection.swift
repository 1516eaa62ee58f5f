// Connection: one peer as the engine sees it: protocol state, output, streams, and the start times of its time limits.

import Bytes
import RSocket

/// The other end of a connection.
struct RemoteEnd {
    /// Address and port. They change when a session is resumed from another address.
    private(set) var peer: String
    /// The address without the port, as counted for `connectionsPerAddress`.
    private(set) var address: String
    /// The certificate that the peer has presented.
    private(set) var certificate: PeerCertificate?
    /// Whether the connection uses TLS.
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

/// Which of its shard's lists contain a connection; each list contains it at most once.
struct ShardLists {
    /// Whether the next tick visits the connection.
    var isTouched = false
    /// Whether the connection has ended, with some of its streams still to be ended.
    var isEnding = false
    /// Whether the driver will gather the connection's output.
    var isFlushing = false
    /// Whether the connection's output has gained space without a write.
    var isRoomy = false
}

final class Connection: Timed {
    let handle: Handle
    var remote: RemoteEnd
    var login = Login()
    var rsocket: ServerConnection
    /// The HTTP state; nil if the connection speaks RSocket.
    let http: HTTPConnection?
    var output: Output
    var lifecycle: Lifecycle
    /// Set if the connection can be resumed.
    var session: Session?
    var streams = ConnectionStreams()
    var waiters = OutputWaiters()
    /// When the peer was last heard from, and what it leaves unread.
    var liveness: Liveness
    /// The part of the input that waits.
    var input = InputState()
    var lists = ShardLists()
    /// What its subscriptions to patterns need.
    var patternNeed = PatternNeeds.Need()
    var timerPlace = -1
    /// Bytes received from and taken by the socket.
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
    var rateLimit: UserRateLimit? { login.rateLimit }
    var isExpelled: Bool { login.isExpelled }
    var phase: Lifecycle.Phase { lifecycle.phase }
    var isOpen: Bool { lifecycle.isOpen }
    var hasEnded: Bool { lifecycle.hasEnded }
    var isClosed: Bool { lifecycle.isClosed }
    /// Bytes that are sent as soon as the socket takes them.
    var handedOver: Int { output.count + (http?.bodies.ready ?? 0) }
    /// Whether more may be handed over if `limit` bytes may wait.
    func hasRoom(_ limit: Int) -> Bool { room(limit) > 0 }
    /// How many more bytes may be handed over if `limit` bytes may wait; none if 0 or less.
    func room(_ limit: Int) -> Int { output.room(limit) - (http?.bodies.ready ?? 0) }
    /// Bytes of unprocessed input and of responses that count towards the broker's memory.
    var bufferedBytes: Int {
        (http?.bufferedBytes ?? rsocket.bufferedBytes) + output.control.capacity
    }
    /// Whether the connection has no socket and may be resumed.
    var isDetached: Bool { session?.detachedAt != nil }
    /// Whether everything has been written.
    var isWritten: Bool { output.isEmpty && http?.wantsOutput != true }
    /// How many messages the connection's subscriptions have received, and how many more are waiting.
    var standing: (delivered: UInt64, waiting: UInt64) {
        var standing = (delivered: UInt64(0), waiting: UInt64(0))
        for stream in streams where stream.isSubscription {
            if stream.kind == .pattern {
                standing.delivered &+= stream.asPattern.sums.delivered
                standing.waiting &+= UInt64(stream.asPattern.sums.waiting)
                continue
            }
            let subscriber = stream.asSubscriber
            guard subscriber.hasJoined else { continue }
            standing.delivered &+= subscriber.cursor.delivered
            standing.waiting &+= UInt64(subscriber.cursor.waiting)
        }
        return standing
    }

    /// Compensates for the thread's stalls, which do not count against the peer; see `Liveness.excuse`.
    func excuse(_ stoodStill: (time: UInt64, until: UInt64), now: UInt64) {
        guard let excuse = liveness.excuse(stoodStill, now: now) else { return }
        if let session { session.detachedAt = session.detachedAt.map(excuse) }
        if let http1 = http?.http1 { http1.quietSince = excuse(http1.quietSince) }
    }

    /// When one of the connection's time limits may be reached; `soon` if every tick must check it.
    func timeLimit(_ limits: Limits, soon: UInt64) -> UInt64 {
        if let since = session?.detachedAt { return since.addingClamped(limits.resumeTime) }
        if session != nil, outputWaiterCount > 0 || waiters.listCount > 0 { return soon }
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
            if http?.bodies.hasWindowWaiters == true { return soon }
            if session.pointee.hasPartialFrame { add(liveness.lastHeard, limits.reassemblyTime) }
            add(session.pointee.deadline, 0)
        }
        return due
    }

    /// Whether nothing waits for the peer to read or for space, except what is in the output.
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
            stream.rateLimit = rateLimit
            return rsocket.setHandle(stream.handle.index, stream: stream.stream)
        }
        stream.exchange = http.exchange(of: stream.stream)
        if let exchange = stream.exchange {
            exchange.bound = stream
            if stream.isLasting { http.exchanges.countLasting(1) }
        }
        stream.principal = stream.exchange?.principal ?? .nobody
        stream.rateLimit = stream.exchange?.rateLimit
    }

    /// Ends a stream that the engine has finished with, if it is an RSocket stream. An HTTP stream lasts until its
    /// response is written, which the HTTP session takes care of.
    func close(stream: UInt32) {
        if http == nil { rsocket.closeStream(stream) }
    }

    func detach(_ stream: BoundStream) { streams.remove(stream) }

    func add(channel publisher: Publisher) { streams.add(channel: publisher) }

    func remove(channel publisher: Publisher) { streams.remove(channel: publisher) }

    var outputWaiterCount: Int { waiters.outputWaiterCount }

    func add(outputWaiter subscriber: Subscriber) { waiters.add(outputWaiter: subscriber) }

    /// Removes a subscriber that waits for output space.
    func remove(outputWaiter subscriber: Subscriber) { waiters.remove(outputWaiter: subscriber) }

    /// "127.0.0.1:50312" and "[::1]:50312" without the port.
    static func address(of peer: String) -> String {
        guard let colon = peer.lastIndex(of: ":") else { return peer }
        return String(peer[..<colon])
    }
}

extension UInt64 {
    /// The start of a period, moved so that `time` nanoseconds of the period do not count.
    func excused(_ time: UInt64, now: UInt64) -> UInt64 {
        Swift.max(self, Swift.min(addingClamped(time), now))
    }
}
