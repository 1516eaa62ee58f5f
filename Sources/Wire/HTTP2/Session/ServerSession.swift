// ServerSession: the server's side of one HTTP/2 connection (RFC 9113), without I/O. Bytes are fed in, events are
// pulled, output is produced into a sink of the owner's. Nghttp2 does the framing, the compression and the rules.
//
//     bytes ─ feed ─> Connection ─ next ─> events            (Connection.swift, Connection+Callbacks.swift)
//     respond, finish, consume, … ─> Connection ─ produce ─> sink        (Connection+Output.swift)

import Bytes

/// The server's side of one connection. A peer can cause no trap in it, and no memory beyond its limits.
///
/// Call `feed`, then `next` until nil, then `produce`; while `hasEvents` call `next` again. Streams are known by
/// HTTP/2's ids; what concerns a stream that is not open any more is ignored.
public struct ServerSession: ~Copyable {
    @usableFromInline let connection: Connection

    public init(limits: HTTP2Limits = HTTP2Limits()) {
        connection = Connection(.server, limits: limits)
    }

    // MARK: In

    /// Hands in one read. The bytes are touched until `next` has returned nil, or until `hold`.
    ///
    /// - Parameter now: the time in nanoseconds, of a clock that never steps back.
    public mutating func feed(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        connection.feed(bytes, now: now)
    }

    /// The next event, nil when all that was fed has been dealt with.
    public mutating func next() -> HTTPEvent? { connection.next() }

    /// Stops for now: what has not been dealt with is kept, and comes out of `next` later. The caller's bytes are not
    /// touched any more. Feed nothing until `next` has returned nil again, or what is kept has no bound.
    public mutating func hold() { connection.hold() }

    /// Events wait that `produce` or the owner's calls brought about.
    public var hasEvents: Bool { !connection.events.isEmpty }

    /// When `expire` is to be called, in nanoseconds; nil when it need not be.
    public var deadline: UInt64? { connection.deadline }

    /// Lets streams that wait for the peer's tiny window write all the same; call `produce` afterwards.
    public mutating func expire(now: UInt64) { connection.expire(now: now) }

    // MARK: Streams

    /// Sets the owner's own index for a stream; it comes back in the stream's events. Until then it is `UInt32.max`.
    public mutating func setHandle(_ handle: UInt32, stream: UInt32) {
        if let index = connection.streams.find(stream) { connection.streams[index].handle = handle }
    }

    /// The owner's index for a stream, nil when the stream is not open or has none.
    public func handle(of stream: UInt32) -> UInt32? {
        guard let index = connection.streams.find(stream) else { return nil }
        let handle = connection.streams[index].handle
        return handle == HTTPStream.noHandle ? nil : handle
    }

    /// The peer's half of a stream has ended: its `complete` has come, or comes next, behind the `data` that came last.
    public func hasEnded(_ stream: UInt32) -> Bool {
        guard let index = connection.streams.find(stream) else { return true }
        return connection.streams[index].remoteDone
    }

    /// Acknowledges `count` bytes of a stream's body, which opens the peer's windows again (RFC 9113, 6.9). What a
    /// stream has not consumed when it ends is given back to the connection by itself.
    public mutating func consume(_ stream: UInt32, _ count: Int) { connection.consume(stream, count) }

    // MARK: Out

    /// Answers a request, once. `complete`: the response has no body; else `bodyAvailable` and `finish` follow.
    ///
    /// - Parameter status: 200 to 599 (RFC 9110, 15).
    public mutating func respond(_ stream: UInt32, status: Int, fields: HTTPFields, complete: Bool) {
        connection.respond(stream, status: status, fields: fields, complete: complete)
    }

    /// Sends an informational response ahead of the response: 100 when a body that the peer announced by `expect` is
    /// wanted (RFC 9110, 10.1.1).
    public mutating func inform(_ stream: UInt32, status: Int) { connection.inform(stream, status: status) }

    /// The owner has bytes of the stream's body: the sink will be asked for them.
    public mutating func bodyAvailable(_ stream: UInt32) { connection.bodyAvailable(stream) }

    /// The response ends behind what is queued of its body. What still comes of the request's is discarded.
    ///
    /// - Parameter trailers: nil when there are none.
    public mutating func finish(_ stream: UInt32, trailers: HTTPFields? = nil) {
        connection.finish(stream, trailers: trailers)
    }

    /// Ends a stream at once. It is forgotten: no event of it comes any more.
    public mutating func reset(_ stream: UInt32, _ code: HTTP2Code) { connection.reset(stream, code) }

    /// How many bytes the peer's windows allow on a stream for now. When it is 0, `writable` tells the change.
    public mutating func room(_ stream: UInt32) -> Int { connection.room(stream) }

    /// As `room`, but a change from 0 is not told.
    public func window(_ stream: UInt32) -> Int { connection.window(stream) }

    /// Has `writable` tell when the peer's windows have grown on a stream, though they allow something already.
    public mutating func awaitRoom(_ stream: UInt32) { connection.awaitRoom(stream) }

    /// Asks the peer for a `pong`.
    public mutating func ping(_ number: UInt64) { connection.ping(number) }

    /// Tells the peer to open no more streams, while those on their way are still served; `goAway` follows a round
    /// trip later (RFC 9113, 6.8).
    public mutating func shutdownNotice() { connection.shutdownNotice() }

    /// Ends the connection. With `noError`, streams that are open go on to their end, and no others are taken; with
    /// any other code all streams are forgotten, and `fatal` is told.
    public mutating func goAway(_ code: HTTP2Code, _ message: String) { connection.goAway(code, message) }

    /// Writes into `sink` until about `limit` bytes are written – the last frame may exceed it, DATA by at most
    /// `HTTP2Limits.minDataFrame` – or there is nothing to write for now. Streams take turns frame by frame.
    ///
    /// - Returns: bytes written, the headers of DATA frames and their bytes among them.
    @inlinable
    @discardableResult
    public mutating func produce<Sink: HTTPSink & ~Copyable>(into sink: inout Sink, atMost limit: Int) -> Int {
        withUnsafeMutablePointer(to: &sink) { sink in
            withUnsafePointer(to: SinkPort(sink)) { connection.pump($0, atMost: limit) }
        }
    }

    // MARK: State

    /// `produce` may have something to write.
    public var wantsOutput: Bool { connection.wantsOutput }

    /// Nothing more will be told or written: close when the output has gone.
    public var isFinished: Bool { connection.isFinished }

    /// The peer's preface and SETTINGS have come.
    public var isOpened: Bool { connection.isOpened }

    /// A frame or a header section has begun whose end has not come, or `hold` kept something. One that stays so for
    /// long is the mark of a slow attack; the owner has the clock for that.
    public var hasPartialFrame: Bool { connection.hasPartialFrame }

    public var openStreams: Int { connection.streams.count }

    /// Frames other than DATA that wait for `produce`.
    public var queuedFrames: Int { connection.queuedFrames }

    /// Bytes of memory held here, nghttp2's own aside.
    public var bufferedBytes: Int { connection.bufferedBytes }

    public var counters: HTTP2Counters { connection.flood.counters }
}
