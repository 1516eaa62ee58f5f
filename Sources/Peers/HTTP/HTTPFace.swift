// HTTPFace: what a connection that speaks HTTP has beside its output: the protocol's state, and an exchange – a request
// and its response – for each open stream.

import Bytes
import HTTP2

final class HTTPFace {
    /// The protocol below the exchanges.
    private(set) var carrier = Carrier.undecided
    private var exchanges = Slab<Exchange>()
    /// Bytes of unfinished messages, of all exchanges; and of the memory that they lie in.
    private(set) var held = 0
    private(set) var heldMemory = 0
    /// Bytes of memory that the bodies of all exchanges hold for themselves.
    private(set) var queued = 0
    /// Bytes of all bodies that wait.
    private(set) var bodies = 0
    /// Those of them that the peer's windows did not allow when they were handed over. They wait for the peer alone.
    private(set) var beyond = 0
    /// Streams with a message that goes beyond their window, and has to wait until `beyond` is less. In turn.
    private var crowded = TurnQueue<Exchange>()
    /// The credentials of the latest request that was let in by any, and who made it.
    var login: (authorization: String, principal: Principal)?
    /// Users with requests under way, and with how many. No more than there are streams.
    private var speakers: [(account: Account, requests: Int)] = []
    /// What somebody showed may expire by then, in nanoseconds since 1970; nil if nothing does.
    var nextExpiry: Int64?
    /// The earliest deadline of an exchange may be this; nil when none has one.
    var nextDeadline: UInt64?
    /// A stream may need a sign of life by then; nil when there is none that has them.
    var nextHeartbeat: UInt64?
    /// Errors of the peer's that its session dealt with by itself, as far as the shard's counters have them.
    var countedErrors: UInt64 = 0
    var countedRefused: UInt64 = 0
    var countedHeaders: UInt64 = 0
    /// Calls of reflection that are open, at most `Limits.listingsPerConnection`.
    var reflections = 0
    /// Those of them with requests that wait until the answer before is sent.
    var heldBack: [Exchange] = []

    private let pool: BlockPool

    init(pool: BlockPool) { self.pool = pool }

    deinit {
        carrier.destroy()
        pool.count(-queued)
    }

    /// Its first bytes were not those of HTTP/1.1.
    func becomeHTTP2(limits: Limits) {
        if case .undecided = carrier { carrier = .http2(limits: limits.ofHTTP) }
    }

    /// The connection, of which nothing is known yet, speaks HTTP/1.1.
    func becomeHTTP1(now: UInt64) {
        carrier = .http1(HTTP1Carrier(pool: pool, now: now))
    }

    var exchangeCount: Int { exchanges.count }
    /// Exchanges that are over but for what is still to be written of their answers.
    private(set) var unwritten = 0
    /// Exchanges that are over altogether.
    private(set) var done: UInt64 = 0
    /// An exchange is over but for what is still to be written.
    func noteFinished() { unwritten += 1 }

    /// Since when no more than a few answers were written while memory is short, and how many were `done` then.
    var holdsBack: (since: UInt64, done: UInt64)?
    /// Streams wait until less goes beyond their windows.
    var isCrowded: Bool { !crowded.isEmpty }

    /// Exchanges that subscriptions and channels stand behind, which may last.
    var lasting = 0
    /// The others: requests that are not complete, not answered, or whose answer is not written.
    var requests: Int { exchanges.count - lasting }
    /// Bytes that each of these takes beside bodies: its exchange, its head, and nghttp2's stream.
    static let requestMemory = 2 << 10

    /// Bytes of bodies that go as soon as the output takes them.
    var ready: Int { bodies - beyond }

    /// Bytes held for what is not dealt with or not written yet, and for HTTP/1.1.
    var bufferedBytes: Int {
        let carried =
            switch carrier {
            case .undecided: 0
            case .http2(let session): session.pointee.bufferedBytes
            case .http1(let http1): http1.memory
            }
        let brief = session == nil ? 0 : requests * HTTPFace.requestMemory
        return carried + heldMemory + queued + brief + (login?.authorization.utf8.count ?? 0)
    }

    /// It speaks HTTP/2, and nothing of it waits for what is written.
    var isAtEase: Bool {
        guard case .http2(let session) = carrier else { return false }
        return !isCrowded && heldBack.isEmpty && !session.pointee.hasEvents && !session.pointee.wantsOutput
    }

    func noteExpiry(_ time: Int64) { nextExpiry = Swift.min(nextExpiry ?? .max, time) }

    /// - Parameters:
    ///   - timeout: nanoseconds until it is refused if it has not ended; nil if it may last.
    ///   - limit: bytes of the longest message of a call.
    func open(
        _ stream: UInt32, _ connection: Connection, _ form: Exchange.Form, timeout: UInt64?, now: UInt64, limit: Int
    ) -> Exchange {
        let exchange = exchanges.insert { handle in
            Exchange(stream: stream, handle: handle, connection: connection, form: form, limit: limit)
        }
        name(exchange)
        if let timeout { limitTime(of: exchange, to: timeout, now: now) }
        return exchange
    }

    /// Has an exchange refused unless it ends, or its deadline is taken away, within `timeout` nanoseconds.
    func limitTime(of exchange: Exchange, to timeout: UInt64, now: UInt64) {
        let deadline = now.addingClamped(timeout)
        exchange.deadline = deadline
        nextDeadline = Swift.min(nextDeadline ?? .max, deadline)
    }

    /// Gives a message of a call that has begun, if there is one, `timeout` nanoseconds to be complete, in however many
    /// pieces it comes; and one behind which the call's end has to come, as much for that.
    func limitMessage(of exchange: Exchange, to timeout: UInt64, now: UInt64) {
        guard exchange.deframer.heldBytes > 0 || exchange.awaitsEnd else { return exchange.messageDue = nil }
        let number = exchange.deframer.count
        if let due = exchange.messageDue, due.number == number { return }
        let due = now.addingClamped(timeout)
        exchange.messageDue = (due, number)
        nextDeadline = Swift.min(nextDeadline ?? .max, due)
    }

    /// The exchange that an event of the session named.
    func exchange(at handle: UInt32) -> Exchange? {
        Int(handle) < exchanges.bound ? exchanges.at(Int(handle)) : nil
    }

    /// The same without counting a reference, for as long as no exchange ends.
    @inline(__always)
    func unretainedExchange(at handle: UInt32) -> Unmanaged<Exchange>? {
        Int(handle) < exchanges.bound ? exchanges.unretained(at: Int(handle)) : nil
    }

    func exchange(of stream: UInt32) -> Exchange? {
        handle(of: stream).flatMap { exchange(at: $0) }
    }

    /// Whether a request of that user is under way.
    func speaks(for account: Account) -> Bool { speakers.contains { $0.account === account } }

    /// It is known whose request it is.
    func beginSpeaking(_ exchange: Exchange) {
        guard let account = exchange.meter?.account, !exchange.isSpeaking else { return }
        exchange.isSpeaking = true
        if let place = speakers.firstIndex(where: { $0.account === account }) {
            speakers[place].requests += 1
        } else {
            speakers.append((account, 1))
        }
    }

    /// The connection counts for a user no more when that one's last request is over, unless it was the latest of all.
    private func endSpeaking(_ exchange: Exchange) {
        guard exchange.isSpeaking, let account = exchange.meter?.account else { return }
        exchange.isSpeaking = false
        guard let place = speakers.firstIndex(where: { $0.account === account }) else { return }
        speakers[place].requests -= 1
        guard speakers[place].requests == 0 else { return }
        speakers.remove(at: place)
        if account !== exchange.connection.meter?.account { account.connections.give() }
    }

    /// The connection is over. Hands out for whom it spoke.
    func endSpeaking(_ each: (Account) -> Void) {
        for speaker in speakers { each(speaker.account) }
        speakers.removeAll()
    }

    /// The stream is over; nothing more is told or written of it.
    func forget(_ exchange: Exchange) {
        exchange.isFinished = true
        unwritten -= 1
        done &+= 1
        endSpeaking(exchange)
        exchange.body.removeAll()
        weigh(exchange)
        release(exchange)
        if let turn = exchange.crowdedTurn {
            exchange.crowdedTurn = nil
            crowded.withdraw(turn)
        }
        if exchange.isReflecting {
            exchange.isReflecting = false
            reflections -= 1
            heldBack.removeAll { $0 === exchange }
        }
        exchanges.remove(exchange.handle)
    }

    /// Counts what an exchange holds of messages that are not dealt with.
    func count(_ exchange: Exchange) {
        let content = exchange.plain?.content.capacity ?? 0
        let bytes = exchange.deframer.heldBytes + exchange.backlog.count + content
        held += bytes - exchange.held
        exchange.held = bytes
        let memory = exchange.deframer.heldMemory + exchange.backlog.capacity + content
        heldMemory += memory - exchange.heldMemory
        exchange.heldMemory = memory
    }

    /// Nothing more of its unfinished message is wanted. The message at work may lie in it still.
    func release(_ exchange: Exchange) {
        guard !exchange.isTaking else { return }
        exchange.backlog = ByteBuffer()
        exchange.awaitsEnd = false
        exchange.plain?.dropContent()
        exchange.deframer = GRPCDeframer(limit: exchange.deframer.limit)
        exchange.messageDue = nil
        count(exchange)
    }

    /// Counts its body, which has changed.
    /// - Parameter window: what `window` tells of it, if that is known already.
    func weigh(_ exchange: Exchange, window: Int? = nil) {
        let memory = exchange.body.memory
        if memory != exchange.queued {
            pool.count(memory - exchange.queued)
            queued += memory - exchange.queued
            exchange.queued = memory
        }
        let count = exchange.body.count
        let grew = count > exchange.waiting
        bodies += count - exchange.waiting
        exchange.waiting = count
        if grew {
            weigh(exchange, against: window ?? self.window(exchange))
        } else if exchange.beyond > count {
            setBeyond(count, of: exchange)
        }
    }

    /// Its peer takes nothing more for now: small ranges of shared memory are copied, where there is room for that.
    func detach(_ exchange: Exchange) {
        exchange.body.detach { pool.mayOwn($0) }
        weigh(exchange)
        weighAgainstWindow(exchange)
    }

    /// Bytes that all bodies may have beyond the windows; while memory is short one message is as many as may be.
    func mostBeyond(_ limit: Int) -> Int { pool.isShort ? 1 : limit }

    /// Counts how much of its body goes beyond what the peer allows now. What a tiny window allows goes slowly. There
    /// are no windows over HTTP/1.1.
    func weighAgainstWindow(_ exchange: Exchange) { weigh(exchange, against: window(exchange)) }

    private func weigh(_ exchange: Exchange, against window: Int) {
        setBeyond(Swift.max(0, exchange.waiting - (window < HTTPFace.smallWindow ? 0 : window)), of: exchange)
    }

    /// As `HTTP2Limits.tinyData`.
    private static let smallWindow = HTTP2Limits().tinyData

    private func setBeyond(_ bytes: Int, of exchange: Exchange) {
        beyond += bytes - exchange.beyond
        exchange.beyond = bytes
    }

    /// Has an exchange wait until less of all bodies goes beyond the windows, or its own window has grown.
    func crowd(_ exchange: Exchange) {
        exchange.isStalled = true
        awaitRoom(exchange)
        guard exchange.crowdedTurn == nil else { return }
        exchange.crowdedTurn = crowded.append(exchange)
    }

    /// The one that has waited longest for others' bodies, if there is room beyond the windows for its message.
    func nextCrowded(limit: Int) -> Exchange? {
        guard beyond < limit, let exchange = crowded.popFirst() else { return nil }
        exchange.crowdedTurn = nil
        exchange.isStalled = false
        return exchange
    }

    /// Something that was handed over, or could be, waits for the peer's windows, or to be made in its form.
    var isWaiting: Bool {
        all.contains {
            guard $0.bound?.kind != .listing else { return false }
            if ($0.bound as? Subscriber)?.awaitsForm == true { return true }
            return !$0.body.isEmpty || ($0.isStalled && $0.bound != nil)
        }
    }

    var all: [Exchange] { (0..<exchanges.bound).compactMap { exchanges.at($0) } }

    /// Places that `forEachExchange` goes over, which makes no list of them.
    var places: Int { exchanges.bound }
    func forEachExchange(_ body: (Exchange) -> Void) {
        for place in 0..<places { exchanges.at(place).map(body) }
    }

    /// Moves what may be sent into `output`, at most about `limit` bytes.
    func produce(into connection: Connection, atMost limit: Int) {
        guard limit > 0 else { return }
        switch carrier {
        case .undecided: break
        case .http2(let session):
            guard session.pointee.wantsOutput else { return }
            var sink = OutputSink(face: .passUnretained(self), connection: .passUnretained(connection))
            session.pointee.produce(into: &sink, atMost: limit)
        case .http1(let http1): produce(http1, into: connection, atMost: limit)
        }
    }

    /// Moves the first `count` bytes of a body, with the head of their frame before them.
    func move(_ count: Int, of exchange: Exchange, behind head: UnsafeRawBufferPointer, into connection: Connection) {
        guard exchange.body.isOwn else {
            connection.output.reserve(head.count).copyMemory(from: head)
            return move(count, of: exchange, into: connection)
        }
        let target = connection.output.reserve(head.count + count)
        target.copyMemory(from: head)
        let rest = UnsafeMutableRawBufferPointer(rebasing: target[head.count...])
        exchange.body.take(count) { bytes, _ in rest.copyMemory(from: bytes) }
        weigh(exchange)
    }

    /// Moves the first `count` bytes of a body, by reference where they lie in shared memory.
    func move(_ count: Int, of exchange: Exchange, into connection: Connection) {
        exchange.body.take(count) { bytes, owner in
            if let owner {
                connection.output.append(bytes, of: owner)
            } else {
                connection.output.reserve(bytes.count).copyMemory(from: bytes)
            }
        }
        weigh(exchange)
    }
}
