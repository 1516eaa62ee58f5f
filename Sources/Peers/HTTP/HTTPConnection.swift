// HTTPConnection: the HTTP part of a connection: the protocol's state, and an exchange (a request and its response) for
// each open stream.

import HTTP2

final class HTTPConnection {
    /// The protocol below the exchanges.
    private(set) var transport = HTTPTransport.undecided
    var exchanges = ExchangeTable()
    /// Totals of the unfinished messages of all exchanges.
    private(set) var held = HeldBytes()
    private(set) var bodies: BodyAccount
    var users = HTTPUsers()
    /// Deadlines of exchanges, on the monotonic clock.
    var deadlines = Earliest<UInt64>()
    /// When streams may need a keepalive, on the monotonic clock.
    var heartbeats = Earliest<UInt64>()
    var reflections = ReflectionCalls()
    private var errors = CountedErrors()
    private let pool: BlockPool

    init(pool: BlockPool) {
        self.pool = pool
        bodies = BodyAccount(pool: pool)
    }

    deinit { transport.destroy() }

    /// Treats the connection as HTTP/2: its first bytes were not HTTP/1.1's.
    func becomeHTTP2(limits: Limits) {
        if case .undecided = transport { transport = .http2(limits: limits.ofHTTP) }
    }

    /// Treats the connection, whose protocol was not known yet, as HTTP/1.1.
    func becomeHTTP1(now: UInt64) {
        transport = .http1(HTTP1Transport(pool: pool, now: now))
    }

    /// HTTP/2's session; nil over HTTP/1.1, and before the protocol is known. Must not be kept after the calling
    /// function.
    var session: UnsafeMutablePointer<ServerSession>? { transport.session }
    /// HTTP/1.1's state; nil over HTTP/2, and before the protocol is known.
    var http1: HTTP1Transport? { if case .http1(let http1) = transport { http1 } else { nil } }

    /// Exchanges that do not last: requests that are incomplete, not answered, or whose response is not written.
    var requests: Int { exchanges.count - exchanges.lasting }
    /// Bytes that each of these requests takes in addition to bodies: its exchange, its head, and nghttp2's stream.
    static let requestMemory = 2 << 10

    /// Bytes held for unprocessed input, unwritten output, and HTTP/1.1.
    var bufferedBytes: Int {
        let brief = session == nil ? 0 : requests * HTTPConnection.requestMemory
        return transport.bufferedBytes + held.memory + bodies.memory + brief + users.memory
    }

    /// Whether the connection speaks HTTP/2 and none of its output waits for a write.
    var isAtEase: Bool {
        guard case .http2(let session) = transport else { return false }
        return !bodies.hasWindowWaiters && reflections.waiting.isEmpty && !session.pointee.hasEvents
            && !session.pointee.wantsOutput
    }

    /// Counts the streams that the session has ended because of the peer's errors since the last call, including
    /// streams over the limit and headers that were too long. Over HTTP/1.1 an error ends the connection.
    func takeErrors(into counters: inout ShardCounters) {
        if let session { errors.take(from: session, into: &counters) }
    }

    // Exchanges

    /// - Parameters:
    ///   - timeout: nanoseconds after which the exchange is refused if it has not ended; nil for no limit.
    ///   - limit: the maximum size of a message in a call, in bytes.
    func open(
        _ stream: UInt32, _ connection: Connection, _ form: Exchange.Form, timeout: UInt64?, now: UInt64, limit: Int
    ) -> Exchange {
        let exchange = exchanges.insert { handle in
            Exchange(stream: stream, handle: handle, connection: connection, form: form, limit: limit)
        }
        transport.name(exchange)
        if let timeout { limitTime(of: exchange, to: timeout, now: now) }
        return exchange
    }

    /// Refuses an exchange unless it ends, or its deadline is cleared, within `timeout` nanoseconds.
    func limitTime(of exchange: Exchange, to timeout: UInt64, now: UInt64) {
        let deadline = now.addingClamped(timeout)
        exchange.deadline = deadline
        deadlines.note(deadline)
    }

    /// The exchange named by an event of the session.
    @inline(__always)
    func exchange(at handle: UInt32) -> Exchange? { exchanges[handle] }

    /// Like `exchange(at:)`, but does not retain the exchange; valid until an exchange ends.
    @inline(__always)
    func unretainedExchange(at handle: UInt32) -> Unmanaged<Exchange>? {
        exchanges.unretained(handle)
    }

    func exchange(of stream: UInt32) -> Exchange? {
        transport.handle(of: stream).flatMap { exchange(at: $0) }
    }

    /// Removes an exchange whose stream has ended; nothing more is reported or written for it.
    func discard(_ exchange: Exchange) {
        exchange.finish()
        users.end(exchange)
        exchange.body.removeAll()
        weigh(exchange)
        release(exchange)
        bodies.withdraw(exchange)
        reflections.close(exchange)
        exchanges.remove(exchange)
    }

    /// Whether the client's side has ended, either before or with the input now being read.
    func hasEnded(_ exchange: Exchange) -> Bool { session?.pointee.hasEnded(exchange.stream) ?? false }

    /// Reopens the peer's windows by the bytes that were taken from a request's body.
    func consume(_ stream: UInt32, _ count: Int) { session?.pointee.consume(stream, count) }

    /// Counts the unprocessed messages that an exchange holds.
    func count(_ exchange: Exchange) {
        let (before, after) = (exchange.request.held, exchange.unfinished)
        held.bytes += after.bytes - before.bytes
        held.memory += after.memory - before.memory
        exchange.request.held = after
        assert(held.bytes >= 0 && held.memory >= 0)
    }

    /// Drops the exchange's unfinished message, unless the current message may still be in it.
    func release(_ exchange: Exchange) {
        guard !exchange.request.isTaking else { return }
        exchange.request.release()
        exchange.plain?.dropContent()
        count(exchange)
    }

    // Bodies

    /// Counts a body that has changed.
    /// - Parameter window: the transport's window for the body, if already known.
    @inline(__always)
    func weigh(_ exchange: Exchange, window: Int? = nil) {
        bodies.weigh(exchange, window: window ?? transport.window(exchange))
    }

    /// Copies small shared ranges of a body of which the peer takes nothing more for now, if there is room for copies.
    func detach(_ exchange: Exchange) {
        bodies.detach(exchange)
        weigh(exchange)
        bodies.weigh(exchange, against: transport.window(exchange))
    }

    /// Makes an exchange wait until fewer bytes of all bodies are beyond the windows, or its own window has grown.
    func crowd(_ exchange: Exchange) {
        transport.awaitRoom(exchange)
        bodies.crowd(exchange)
    }

    /// The next exchange that waited for other bodies and may continue.
    func nextWindowWaiter(limit: Int) -> Exchange? { bodies.nextWindowWaiter(limit: bodies.mostBeyond(limit)) }

    /// Whether something that was or could be handed over waits for the peer's windows, or to be encoded in its form.
    var isWaiting: Bool {
        exchanges.all.contains {
            guard $0.bound?.kind != .listStream else { return false }
            if $0.bound?.isAwaitingForm == true { return true }
            return !$0.body.isEmpty || ($0.isStalled && $0.bound != nil)
        }
    }

    /// Whether some exchange has something to write.
    var wantsOutput: Bool {
        switch transport {
        case .undecided: false
        case .http2(let session): session.pointee.wantsOutput
        case .http1(let http1):
            !http1.isIdle && !http1.isSpent
                && (http1.isComplete || exchange(at: http1.handle)?.body.isEmpty == false)
        }
    }

    /// Moves what may be sent into the output, at most about `limit` bytes.
    func produce(into connection: Connection, atMost limit: Int) {
        guard limit > 0 else { return }
        switch transport {
        case .undecided: break
        case .http2(let session):
            guard session.pointee.wantsOutput else { return }
            var sink = OutputSink(http: .passUnretained(self), connection: .passUnretained(connection))
            session.pointee.produce(into: &sink, atMost: limit)
        case .http1(let http1): produce(http1, into: connection, atMost: limit)
        }
    }

    /// Moves the first `count` bytes of a body, preceded by their frame's header.
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

    /// Moves the first `count` bytes of a body, by reference if they are in shared memory.
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

/// How many of the errors handled by the session itself the shard's counters already include.
private struct CountedErrors {
    private var errors: UInt64 = 0
    private var refused: UInt64 = 0
    private var headers: UInt64 = 0

    mutating func take(from session: UnsafeMutablePointer<ServerSession>, into counters: inout ShardCounters) {
        let known = session.pointee.counters
        counters.limits[.streamsPerConnection] &+= known.refused &- refused
        counters.limits[.headers] &+= known.tooLargeHeaders &- headers
        counters.streamErrors &+= known.streamErrors &- errors
        (errors, refused, headers) = (known.streamErrors, known.refused, known.tooLargeHeaders)
    }
}
