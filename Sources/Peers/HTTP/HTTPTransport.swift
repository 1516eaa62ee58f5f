// HTTPTransport: the protocol below a connection's exchanges, HTTP/2 or HTTP/1.1, and the engine's operations on it.
// Every access states which of the two versions it expects, and what happens if the connection has the other.

import HTTP2

enum HTTPTransport {
    /// The first bytes have not arrived or are not sufficient. A client that sends nothing gets no memory for a
    /// session.
    case undecided
    /// Allocated separately, so that calls to the session neither copy nor count references; `destroy` frees it.
    case http2(UnsafeMutablePointer<ServerSession>)
    case http1(HTTP1Transport)

    static func http2(limits: HTTP2Limits) -> HTTPTransport {
        let place = UnsafeMutablePointer<ServerSession>.allocate(capacity: 1)
        place.initialize(to: ServerSession(limits: limits))
        return .http2(place)
    }

    /// Frees the session. Must be called once, when the transport is no longer used.
    func destroy() {
        guard case .http2(let session) = self else { return }
        session.deinitialize(count: 1)
        session.deallocate()
    }
}

extension HTTPTransport {
    /// Bytes of a stream's body that may wait until the driver fetches them.
    private static let roomOfHTTP1 = 128 << 10

    @inline(__always)
    var session: UnsafeMutablePointer<ServerSession>? { if case .http2(let session) = self { session } else { nil } }

    /// Whether the end of the connection cannot be reported, because no request is in progress and there is no frame
    /// for it.
    var endsSilently: Bool {
        switch self {
        case .undecided: true
        case .http2: false
        case .http1(let http1): http1.isIdle
        }
    }

    /// Bytes of memory that the protocol takes in addition to the exchanges.
    var bufferedBytes: Int {
        switch self {
        case .undecided: 0
        case .http2(let session): session.pointee.bufferedBytes
        case .http1(let http1): http1.memory
        }
    }

    // Exchanges

    /// The handle of a stream's exchange.
    func handle(of stream: UInt32) -> UInt32? {
        switch self {
        case .undecided: nil
        case .http2(let session): session.pointee.handle(of: stream)
        case .http1(let http1): http1.stream == stream && http1.handle != .max ? http1.handle : nil
        }
    }

    /// Binds an exchange to its stream.
    func name(_ exchange: Exchange) {
        switch self {
        case .undecided: break
        case .http2(let session): session.pointee.setHandle(exchange.handle.index, stream: exchange.stream)
        case .http1(let http1): http1.name(exchange.handle.index)
        }
    }

    // Responses

    /// Sends the head of a response to a client that does not speak gRPC, once.
    /// - Parameters:
    ///   - heads: a cache of previous heads, over HTTP/2.
    ///   - complete: no body follows; otherwise `bodyAvailable` and `finish` do.
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
            // The body of a stream is empty at first, and the response to its HEAD has no length either.
            let isOfStream = answer.body.isEmpty && answer.status == 200
            http1.respond(
                HTTP1Answer(
                    status: answer.status, headers: headers, length: isOfStream ? nil : answer.body.count,
                    isStream: isOfStream && !complete, isLast: false))
            if complete, isOfStream { http1.finish(now: now.monotonic) }
        }
    }

    /// Whether the rest of the request must arrive, at least to be discarded, before the response ends.
    func isAwaited(_ exchange: Exchange) -> Bool {
        if exchange.request.isHalfClosed { return false }
        // A client that asked before sending a body, and was refused, sends none.
        return session != nil || exchange.deadline != nil || exchange.plain?.request.expectsContinue != true
    }

    /// Permits a client that waits for `100 Continue` to send its body. Over HTTP/1.1 the driver does so unless the
    /// request was refused.
    func wantBody(_ exchange: Exchange) { session?.pointee.inform(exchange.stream, status: 100) }

    /// Reports that the exchange's body is not empty. Over HTTP/1.1 flushing the connection is enough.
    @inline(__always)
    func bodyAvailable(_ exchange: Exchange) { session?.pointee.bodyAvailable(exchange.stream) }

    /// Ends the response after the bytes in the body.
    func finish(_ exchange: Exchange, now: Instant) {
        switch self {
        case .undecided: break
        case .http2(let session): session.pointee.finish(exchange.stream)
        case .http1(let http1): http1.finish(now: now.monotonic)
        }
    }

    // Windows

    /// Bytes that the peer has room for, including those that wait in the body.
    @inline(__always)
    func room(_ exchange: Exchange) -> Int { session?.pointee.room(exchange.stream) ?? HTTPTransport.roomOfHTTP1 }

    /// Exactly what the windows allow on a stream. HTTP/1.1 has no windows.
    @inline(__always)
    func window(_ exchange: Exchange) -> Int { session?.pointee.window(exchange.stream) ?? .max }

    /// Requests an event when the peer has more room. Over HTTP/1.1 the peer always has as much as there can be.
    func awaitRoom(_ exchange: Exchange) { session?.pointee.awaitRoom(exchange.stream) }

    // gRPC calls, which use only HTTP/2

    /// Sends the head of a call's response, once, or all of it.
    func respond(_ stream: UInt32, status: Int, fields: HTTPFields, complete: Bool) {
        session?.pointee.respond(stream, status: status, fields: fields, complete: complete)
    }

    /// Ends the call after the bytes in the body.
    func finish(_ exchange: Exchange, trailers: HTTPFields) {
        session?.pointee.finish(exchange.stream, trailers: trailers)
    }

    /// Ends the stream at once; the bytes in the body are not sent.
    func cancel(_ exchange: Exchange) { session?.pointee.reset(exchange.stream, .cancel) }

    // The connection

    /// Frames other than DATA that wait to be written.
    var queuedFrames: Int { session?.pointee.queuedFrames ?? 0 }

    /// Lets existing exchanges finish, and accepts no others.
    func goAway(_ message: String) {
        switch self {
        case .undecided: break
        case .http2(let session): session.pointee.goAway(.noError, message)
        case .http1(let http1): http1.isLast = true
        }
    }

    /// Asks the peer to send its next requests elsewhere; those in flight are still answered. Returns false over
    /// HTTP/1.1, where the responses announce the end.
    func announceEnd() -> Bool {
        session?.pointee.shutdownNotice()
        return session != nil
    }

    /// Requests a keepalive. HTTP/1.1 has none.
    func ping(_ number: UInt64) { session?.pointee.ping(number) }
}
