// Connection: one peer as the engine sees it – protocol state, output, streams, and the moments that its time limits
// count from.

import Bytes
import RSocket

final class Connection: Timed {
    enum Phase {
        /// SETUP has not come yet.
        case new
        case open
        /// A last error is on its way; nothing more is read. Closed when it is written, or at the deadline.
        case closing(deadline: UInt64)
        case closed
    }

    let handle: Handle
    /// It changes when a session goes on from elsewhere.
    var peer: String
    /// The address alone, which `connectionsPerAddress` counts by.
    var address: String
    let face: Face
    let openedAt: UInt64
    var rsocket: ServerConnection
    /// Who the peer is, by the certificate that it has shown.
    var certificate: PeerCertificate?
    /// It came over TLS.
    var isSecured = false
    /// What it speaks, if that is not RSocket.
    let http: HTTPFace?
    var output: Output
    /// Who it is, once SETUP has been accepted. Over HTTP: who makes requests without credentials, if they may be made.
    var principal: Principal?
    /// Where that user is counted, and this connection with it; over HTTP the user of the latest request.
    var meter: Meter?
    /// SETUP waits until its credentials have been looked at.
    var ticket: UInt64?
    /// Its user is not let in any more.
    var isExpelled = false
    /// Topics that it may publish single messages to. Over HTTP, where each request is checked, those of the last ones.
    var allowedTargets = AllowedTargets()
    var phase = Phase.new
    /// Why it ends, once that is known.
    var end: String?
    /// What SETUP named, until the connection is let in.
    var resumeToken: [UInt8]?
    /// It can be resumed.
    var session: Session?
    var streams: [BoundStream] = []
    /// Subscribers with messages to hand over for which the output had no room, in turn.
    private var hungry = TurnQueue<Subscriber>()
    /// Lists with rows and credit for which the output had no room.
    var waitingListings: [Listing] = []

    /// When its peer was heard of, and what it leaves undone.
    var liveness: Liveness
    /// What of its input waits.
    var input = InputState()
    /// The next tick looks at it.
    var isTouched = false
    var timerPlace = -1
    /// It is over, and streams of it are left to end.
    var isEnding = false
    var isFlushing = false
    /// Its output has room that no socket made.
    var isRoomy = false
    /// Acknowledgements wait until the peer has read others.
    var hasUntold = false
    /// An event told that it was opened.
    var isAnnounced = false
    var subscriptions = 0
    /// Publishing channels.
    private(set) var channels: [Publisher] = []
    var publishers: Int { channels.count }
    var listings = 0
    var bytesIn: UInt64 = 0
    var bytesOut: UInt64 = 0
    /// While the broker drains: when messages were handed over last, as far as is known, and how many had been then.
    var drainState = (lastMoved: UInt64(0), movedTo: UInt64(0))

    init(
        handle: Handle, peer: String, address: String, face: Face, limits: Limits, pool: BlockPool, now: UInt64
    ) {
        self.handle = handle
        self.peer = peer
        self.address = address
        self.face = face
        openedAt = now
        liveness = Liveness(now: now)
        rsocket = ServerConnection(limits: limits.ofConnection)
        http = face == .http ? HTTPFace(pool: pool) : nil
        output = Output(pool: pool, isRSocket: face == .rsocket)
    }

    var id: ConnectionID { ConnectionID(index: handle.index, generation: handle.generation) }
    var isOpen: Bool { if case .open = phase { true } else { false } }
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
    /// Its last error is on its way, or has gone.
    var hasEnded: Bool {
        switch phase {
        case .new, .open: false
        case .closing, .closed: true
        }
    }
    var isClosed: Bool { if case .closed = phase { true } else { false } }

    /// The thread stood still for so long in all, until `until` last: that does not count against the peer.
    func excuse(_ stoodStill: (time: UInt64, until: UInt64), now: UInt64) {
        guard let excuse = liveness.excuse(stoodStill, now: now) else { return }
        if let session { session.detachedAt = session.detachedAt.map(excuse) }
        if let http1 = http?.http1 { http1.quietSince = excuse(http1.quietSince) }
    }

    /// When one of its limits of time may be reached; `soon` where it has to be looked at in every tick.
    func timeLimit(_ limits: Limits, soon: UInt64) -> UInt64 {
        if let since = session?.detachedAt { return since.addingClamped(limits.resumeTime) }
        if session != nil, hungryCount > 0 || !waitingListings.isEmpty { return soon }
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
        guard case .open = phase else { return false }
        return (http?.isAtEase ?? true) && session == nil && input.isReading && !input.isHeld && !hasUntold
            && hungry.isEmpty && waitingListings.isEmpty && output.unreadAnswers == 0
    }

    func attach(_ stream: BoundStream) {
        stream.place = streams.count
        streams.append(stream)
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

    func detach(_ stream: BoundStream) {
        let last = streams.removeLast()
        if last !== stream {
            streams[stream.place] = last
            last.place = stream.place
        }
    }

    func add(channel publisher: Publisher) {
        publisher.channelPlace = channels.count
        channels.append(publisher)
    }

    func remove(channel publisher: Publisher) {
        let last = channels.removeLast()
        if last !== publisher {
            channels[publisher.channelPlace] = last
            last.channelPlace = publisher.channelPlace
        }
    }

    // Those that wait for room

    var hungryCount: Int { hungry.count }

    func add(hungry subscriber: Subscriber) { subscriber.outputTurn = hungry.append(subscriber) }

    /// A hungry subscriber is gone.
    func leave(hungry subscriber: Subscriber) {
        guard let turn = subscriber.outputTurn else { return }
        subscriber.outputTurn = nil
        hungry.withdraw(turn)
    }

    /// The one whose turn it is.
    func nextHungry() -> Subscriber? {
        let subscriber = hungry.popFirst()
        subscriber?.outputTurn = nil
        return subscriber
    }

    func forEachHungry(_ body: (Subscriber) -> Void) { hungry.forEach(body) }

    func removeHungry() { hungry.removeAll() }

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
