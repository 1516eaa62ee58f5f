// ClientSession: the client's side of one HTTP/2 connection (RFC 9113), without I/O. It is a ServerSession seen from
// the other end, and both are the same Connection.
//
//     request, finish, consume, … ─> Connection ─ produce ─> sink        (Connection+Output.swift)
//     bytes ─ feed ─> Connection ─ next ─> events                        (Connection.swift, Connection+Callbacks.swift)

import Bytes

/// The client's side of one connection. A peer can cause no trap in it, and no memory beyond its limits.
///
/// Call `produce` after anything else; what comes goes to `feed`, after which `next` is called until nil. Bytes of
/// responses are acknowledged by `consume` alone: what the owner does not take, the peer does not go on sending.
/// Streams are known by HTTP/2's ids; what concerns a stream that is not open any more is ignored.
public struct ClientSession: ~Copyable {
    @usableFromInline let connection: Connection

    /// Begins a connection: preface and SETTINGS come with the first `produce`.
    public init(limits: HTTP2Limits = .client) {
        connection = Connection(.client, limits: limits)
    }

    // MARK: Out

    /// Sends a request. While the peer's limit on streams is reached it waits for its turn.
    ///
    /// - Parameters:
    ///   - fields: `:method`, `:scheme`, `:authority` and `:path` first, then all others.
    ///   - handle: the owner's own index for the stream; it comes back in the stream's events.
    ///   - complete: the request has no body; else `bodyAvailable` and `finish` follow.
    /// - Returns: the stream; nil when `HTTP2Limits.maxStreams` are open, or the connection takes no more.
    public mutating func request(_ fields: HTTPFields, handle: UInt32 = 0, complete: Bool) -> UInt32? {
        connection.request(fields, handle: handle, complete: complete)
    }

    /// The owner has bytes of the stream's body: the sink will be asked for them.
    public mutating func bodyAvailable(_ stream: UInt32) { connection.bodyAvailable(stream) }

    /// The request ends behind what is queued of its body. The response goes on.
    public mutating func finish(_ stream: UInt32) { connection.finish(stream, trailers: nil) }

    /// Ends a stream at once. It is forgotten: no event of it comes any more.
    public mutating func reset(_ stream: UInt32, _ code: HTTP2Code) { connection.reset(stream, code) }

    /// Asks the peer for a `pong`.
    public mutating func ping(_ number: UInt64) { connection.ping(number) }

    /// Ends the connection, as `ServerSession.goAway` does.
    public mutating func goAway(_ code: HTTP2Code, _ message: String) { connection.goAway(code, message) }

    /// Writes into `sink` until about `limit` bytes are written, as `ServerSession.produce` does.
    @inlinable
    @discardableResult
    public mutating func produce<Sink: HTTPSink & ~Copyable>(into sink: inout Sink, atMost limit: Int) -> Int {
        withUnsafeMutablePointer(to: &sink) { sink in
            withUnsafePointer(to: SinkPort(sink)) { connection.pump($0, atMost: limit) }
        }
    }

    // MARK: In

    /// Hands in one read. The bytes are touched until `next` has returned nil.
    ///
    /// - Parameter now: the time in nanoseconds, of a clock that never steps back.
    public mutating func feed(_ bytes: UnsafeRawBufferPointer, now: UInt64) { connection.feed(bytes, now: now) }

    /// The next event, nil when all that was fed has been dealt with.
    public mutating func next() -> HTTPEvent? { connection.next() }

    /// Events wait that `produce` or the owner's calls brought about.
    public var hasEvents: Bool { !connection.events.isEmpty }

    /// Acknowledges `count` bytes of a response's body, which opens the peer's windows again (RFC 9113, 6.9). What a
    /// stream has not consumed when it ends is given back to the connection by itself.
    public mutating func consume(_ stream: UInt32, _ count: Int) { connection.consume(stream, count) }

    /// When `expire` is to be called, in nanoseconds; nil when it need not be.
    public var deadline: UInt64? { connection.deadline }

    /// Lets streams that wait for the peer's tiny window write all the same; call `produce` afterwards.
    public mutating func expire(now: UInt64) { connection.expire(now: now) }

    // MARK: State

    /// `produce` may have something to write.
    public var wantsOutput: Bool { connection.wantsOutput }

    /// The peer's SETTINGS have come: it does speak HTTP/2.
    public var isOpened: Bool { connection.isOpened }

    /// At most `HTTP2Limits.maxStreams`.
    public var openStreams: Int { connection.streams.count }

    /// Streams that the peer allows at a time, by its SETTINGS_MAX_CONCURRENT_STREAMS. Requests above it wait.
    public var peerStreamLimit: Int { connection.peerStreamLimit }

    /// No stream's id is left: the connection is to be replaced by another one (RFC 9113, 5.1.1).
    public var isExhausted: Bool { connection.isExhausted }

    /// Frames other than DATA that wait for `produce`.
    public var queuedFrames: Int { connection.queuedFrames }

    /// Bytes of memory held here, nghttp2's own aside.
    public var bufferedBytes: Int { connection.bufferedBytes }

    /// What the peer did, and what it was refused.
    public var counters: HTTP2Counters { connection.flood.counters }
}
