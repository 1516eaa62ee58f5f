// HTTPTransport: the protocol below a connection's exchanges, HTTP/2 or HTTP/1.1, and what the engine asks of it.
// Nothing gets at either without saying which one it takes it for, and what to do if it is the other.

import HTTP2

enum HTTPTransport {
    /// Its first bytes have not come, or do not tell yet. Who says nothing is not given the memory of a session.
    case undecided
    /// In memory of its own, so that calls of the session copy and count nothing; `destroy` gives it back.
    case http2(UnsafeMutablePointer<ServerSession>)
    case http1(HTTP1Transport)

    static func http2(limits: HTTP2Limits) -> HTTPTransport {
        let place = UnsafeMutablePointer<ServerSession>.allocate(capacity: 1)
        place.initialize(to: ServerSession(limits: limits))
        return .http2(place)
    }

    /// It is not used any more. To be called once.
    func destroy() {
        guard case .http2(let session) = self else { return }
        session.deinitialize(count: 1)
        session.deallocate()
    }
}

extension HTTPTransport {
    /// Bytes of a stream's body that may wait for the driver to fetch them.
    private static let roomOfHTTP1 = 128 << 10

    @inline(__always)
    var session: UnsafeMutablePointer<ServerSession>? { if case .http2(let session) = self { session } else { nil } }

    /// There is nobody to tell of the connection's end: no request is under way, and there is no frame for it.
    var endsUntold: Bool {
        switch self {
        case .undecided: true
        case .http2: false
        case .http1(let http1): http1.isIdle
        }
    }

    /// Bytes of memory that the protocol takes beside the exchanges.
    var bufferedBytes: Int {
        switch self {
        case .undecided: 0
        case .http2(let session): session.pointee.bufferedBytes
        case .http1(let http1): http1.memory
        }
    }

    // Exchanges

    /// The exchange that a stream has.
    func handle(of stream: UInt32) -> UInt32? {
        switch self {
        case .undecided: nil
        case .http2(let session): session.pointee.handle(of: stream)
        case .http1(let http1): http1.stream == stream && http1.handle != .max ? http1.handle : nil
        }
    }

    /// The exchange is known by its stream from now on.
    func name(_ exchange: Exchange) {
        switch self {
        case .undecided: break
        case .http2(let session): session.pointee.setHandle(exchange.handle.index, stream: exchange.stream)
        case .http1(let http1): http1.name(exchange.handle.index)
        }
    }

    // Answers

    /// The head of an answer to a client that does not speak gRPC, once.
    /// - Parameters:
    ///   - heads: those given before, over HTTP/2.
    ///   - complete: no body follows; else `bodyAvailable` and `finish` do.
    func respond(
        _ exchange: Exchange, _ answer: PlainAnswer, heads: inout AnswerHeads, complete: Bool, now: Instant
    ) {
        switch self {
        case .undecided: break
        case .http2(let session):
            let fields = heads.fields(of: answer, wall: now.wall)
            session.pointee.respond(exchange.stream, status: answer.status, fields: fields, complete: complete)
        case .http1(let http1):
            let date = HTTPDate.text(now.wall)
            let headers = [(name: "date", value: date)] + answer.headers.map { (name: $0.name, value: $0.value) }
            // A stream has a body that is empty for now, and its HEAD tells no length either.
            let isOfStream = answer.body.isEmpty && answer.status == 200
            http1.respond(
                HTTP1Answer(
                    status: answer.status, headers: headers, length: isOfStream ? nil : answer.body.count,
                    isStream: isOfStream && !complete, isLast: false))
            if complete, isOfStream { http1.finish(now: now.monotonic) }
        }
    }

    /// The rest of the request is to come, or at least to be thrown away, before the answer ends.
    func isAwaited(_ exchange: Exchange) -> Bool {
        if exchange.request.isHalfClosed { return false }
        // Who asks before it sends a body, and is refused, sends none.
        return session != nil || exchange.deadline != nil || exchange.plain?.request.expectsContinue != true
    }

    /// The client, which waits for that, may send its body. Over HTTP/1.1 the driver tells it when it is not refused.
    func wantBody(_ exchange: Exchange) { session?.pointee.inform(exchange.stream, status: 100) }

    /// There is something in the exchange's body. Over HTTP/1.1 it is enough that the connection is flushed.
    @inline(__always)
    func bodyAvailable(_ exchange: Exchange) { session?.pointee.bodyAvailable(exchange.stream) }

    /// The answer ends behind what is in the body.
    func finish(_ exchange: Exchange, now: Instant) {
        switch self {
        case .undecided: break
        case .http2(let session): session.pointee.finish(exchange.stream)
        case .http1(let http1): http1.finish(now: now.monotonic)
        }
    }

    // Windows

    /// Bytes that the peer has room for, what waits in the body among them.
    @inline(__always)
    func room(_ exchange: Exchange) -> Int { session?.pointee.room(exchange.stream) ?? HTTPTransport.roomOfHTTP1 }

    /// What the windows allow on a stream, and no more. HTTP/1.1 has none.
    @inline(__always)
    func window(_ exchange: Exchange) -> Int { session?.pointee.window(exchange.stream) ?? .max }

    /// Asks to be told when the peer has more room. Over HTTP/1.1 it always has all that there can be.
    func awaitRoom(_ exchange: Exchange) { session?.pointee.awaitRoom(exchange.stream) }

    // Calls of gRPC, which come over HTTP/2 alone

    /// The head of a call's answer, once, or all of it.
    func respond(_ stream: UInt32, status: Int, fields: HTTPFields, complete: Bool) {
        session?.pointee.respond(stream, status: status, fields: fields, complete: complete)
    }

    /// The call ends behind what is in the body.
    func finish(_ exchange: Exchange, trailers: HTTPFields) {
        session?.pointee.finish(exchange.stream, trailers: trailers)
    }

    /// Ends the stream at once, with what is in the body unsent.
    func cancel(_ exchange: Exchange) { session?.pointee.reset(exchange.stream, .cancel) }

    // The connection

    /// Frames other than DATA that wait to be written.
    var queuedFrames: Int { session?.pointee.queuedFrames ?? 0 }

    /// Exchanges that are there go on to their end, and no others are taken.
    func goAway(_ message: String) {
        switch self {
        case .undecided: break
        case .http2(let session): session.pointee.goAway(.noError, message)
        case .http1(let http1): http1.isLast = true
        }
    }

    /// Tells the peer to take its next requests elsewhere, while those on their way are still answered. Over HTTP/1.1
    /// the answers tell it; false then.
    func tellOfEnd() -> Bool {
        session?.pointee.shutdownNotice()
        return session != nil
    }

    /// Asks for a keepalive, which HTTP/1.1 has none of.
    func ping(_ number: UInt64) { session?.pointee.ping(number) }
}
