// Carrier: what the engine asks of the protocol below a connection's exchanges, where that may be one of several.

import HTTP2

extension HTTPFace {
    /// Something of the exchanges is to be written.
    var wantsOutput: Bool { session.wantsOutput }

    /// The exchange that a stream has.
    func handle(of stream: UInt32) -> UInt32? { session.handle(of: stream) }

    /// The exchange is known by its stream from now on.
    func name(_ exchange: Exchange) { session.setHandle(exchange.handle.index, stream: exchange.stream) }

    /// The head of an answer, once.
    /// - Parameters:
    ///   - complete: no body follows; else `bodyAvailable` and `finish` do.
    ///   - wall: the time, in nanoseconds since 1970 UTC.
    func respond(_ exchange: Exchange, _ answer: PlainAnswer, complete: Bool, wall: Int64) {
        let fields = heads.fields(of: answer, wall: wall)
        session.respond(exchange.stream, status: answer.status, fields: fields, complete: complete)
    }

    /// The client, which waits for that, may send its body.
    func wantBody(_ exchange: Exchange) { session.inform(exchange.stream, status: 100) }

    /// There is something in the exchange's body.
    func bodyAvailable(_ exchange: Exchange) { session.bodyAvailable(exchange.stream) }

    /// The answer ends behind what is in the body.
    func finish(_ exchange: Exchange) { session.finish(exchange.stream) }

    /// Bytes that the peer has room for, what waits in the body among them.
    func room(_ exchange: Exchange) -> Int { session.room(exchange.stream) }

    /// Exchanges that are there go on to their end, and no others are taken.
    func goAway(_ message: String) { session.goAway(.noError, message) }

    /// Asks for a sign of life.
    func ping(_ number: UInt64) { session.ping(number) }
}
