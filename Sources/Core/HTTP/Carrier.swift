// Carrier: what the engine asks of the protocol below a connection's exchanges, HTTP/2 or HTTP/1.1. Calls of gRPC ask
// HTTP/2 itself: they come with no other.

import HTTP2

extension HTTPFace {
    /// Bytes of a stream's body that may wait for the driver to fetch them.
    private static let singleRoom = 128 << 10

    /// Something of the exchanges is to be written.
    var wantsOutput: Bool {
        guard let single else { return session.wantsOutput }
        return !single.isIdle && (single.isComplete || exchange(at: single.handle)?.body.isEmpty == false)
    }

    /// The exchange that a stream has.
    func handle(of stream: UInt32) -> UInt32? {
        guard let single else { return session.handle(of: stream) }
        return single.stream == stream && single.handle != .max ? single.handle : nil
    }

    /// The exchange is known by its stream from now on.
    func name(_ exchange: Exchange) {
        if single == nil {
            session.setHandle(exchange.handle.index, stream: exchange.stream)
        } else {
            single!.name(exchange.handle.index)
        }
    }

    /// The head of an answer, once.
    /// - Parameters:
    ///   - heads: those given before, over HTTP/2.
    ///   - complete: no body follows; else `bodyAvailable` and `finish` do.
    func respond(
        _ exchange: Exchange, _ answer: PlainAnswer, heads: inout AnswerHeads, complete: Bool, now: Instant
    ) {
        guard single != nil else {
            let fields = heads.fields(of: answer, wall: now.wall)
            return session.respond(exchange.stream, status: answer.status, fields: fields, complete: complete)
        }
        let date = HTTPDate.text(now.wall)
        let headers = [(name: "date", value: date)] + answer.headers.map { (name: $0.name, value: $0.value) }
        // A stream has a body that is empty for now, and its HEAD tells no length either.
        let isStream = answer.body.isEmpty && answer.status == 200
        single!.respond(
            HTTP1Answer(
                status: answer.status, headers: headers, length: isStream ? nil : answer.body.count, isLast: false))
        if complete, isStream { single!.finish(now: now.monotonic) }
    }

    /// The rest of the request is to come, or at least to be thrown away, before the answer ends.
    func isAwaited(_ exchange: Exchange) -> Bool {
        if exchange.isHalfClosed { return false }
        // Who asks before it sends a body, and is refused, sends none.
        return single == nil || exchange.deadline != nil || exchange.plain?.request.expectsContinue != true
    }

    /// The client, which waits for that, may send its body. Over HTTP/1.1 the driver tells it when it is not refused.
    func wantBody(_ exchange: Exchange) {
        if single == nil { session.inform(exchange.stream, status: 100) }
    }

    /// There is something in the exchange's body. Over HTTP/1.1 it is enough that the connection is flushed.
    func bodyAvailable(_ exchange: Exchange) {
        if single == nil { session.bodyAvailable(exchange.stream) }
    }

    /// The answer ends behind what is in the body.
    func finish(_ exchange: Exchange, now: Instant) {
        if single == nil { session.finish(exchange.stream) } else { single!.finish(now: now.monotonic) }
    }

    /// Bytes that the peer has room for, what waits in the body among them.
    func room(_ exchange: Exchange) -> Int { single == nil ? session.room(exchange.stream) : HTTPFace.singleRoom }

    /// What the windows allow on a stream, and no more. HTTP/1.1 has none.
    func window(_ exchange: Exchange) -> Int {
        single == nil ? session.window(exchange.stream) : .max
    }

    /// Asks to be told when the peer has more room. Over HTTP/1.1 it always has all that there can be.
    func awaitRoom(_ exchange: Exchange) {
        if single == nil { session.awaitRoom(exchange.stream) }
    }

    /// Exchanges that are there go on to their end, and no others are taken.
    func goAway(_ message: String) {
        if single == nil { session.goAway(.noError, message) } else { single!.isLast = true }
    }

    /// Asks for a sign of life.
    func ping(_ number: UInt64) {
        if single == nil { session.ping(number) }
    }
}
