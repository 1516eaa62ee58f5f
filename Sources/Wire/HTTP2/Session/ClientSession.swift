// ClientSession: the client side of one HTTP/2 connection (RFC 9113), without I/O. It is the counterpart of
// ServerSession; both use Connection.
//
//     request, finish, consume, … ─> Connection ─ produce ─> sink        (Connection+Output.swift)
//     bytes ─ feed ─> Connection ─ next ─> events                        (Connection.swift, Connection+Callbacks.swift)

import Bytes

/// The client side of one connection. No input can make it trap or exceed its memory limits.
///
/// Call `produce` after any other method. Pass received bytes to `feed`, then call `next` until it returns nil. Only
/// `consume` acknowledges bytes of responses, so the peer stops sending when the owner does not take them. Streams are
/// identified by HTTP/2's ids; calls for a stream that is no longer open are ignored.
public struct ClientSession: ~Copyable {
    @usableFromInline let connection: Connection

    /// Begins a connection: the first `produce` writes the preface and SETTINGS.
    public init(limits: HTTP2Limits = .client) {
        connection = Connection(.client, limits: limits)
    }

    // MARK: Output

    /// Sends a request. It waits while the peer's limit on streams is reached.
    ///
    /// - Parameters:
    ///   - fields: `:method`, `:scheme`, `:authority` and `:path` first, then all others.
    ///   - handle: the owner's index for the stream, which the stream's events carry.
    ///   - complete: the request has no body; otherwise call `bodyAvailable` and `finish`.
    /// - Returns: the stream; nil if `HTTP2Limits.maxStreams` are open or the connection accepts no more.
    public mutating func request(_ fields: HTTPFields, handle: UInt32 = 0, complete: Bool) -> UInt32? {
        connection.request(fields, handle: handle, complete: complete)
    }

    /// Reports that the owner has bytes of the stream's body; the sink will be asked for them.
    public mutating func bodyAvailable(_ stream: UInt32) { connection.bodyAvailable(stream) }

    /// Ends the request after the queued bytes of its body. The response continues.
    public mutating func finish(_ stream: UInt32) { connection.finish(stream, trailers: nil) }

    /// Ends a stream at once and removes it: it has no further events.
    public mutating func reset(_ stream: UInt32, _ code: HTTP2Code) { connection.reset(stream, code) }

    /// Sends a PING; the peer's answer is a `pong` event.
    public mutating func ping(_ number: UInt64) { connection.ping(number) }

    /// Ends the connection, as `ServerSession.goAway` does.
    public mutating func goAway(_ code: HTTP2Code, _ message: String) { connection.goAway(code, message) }

    /// Writes to `sink` until about `limit` bytes are written, as `ServerSession.produce` does.
    @inlinable
    @discardableResult
    public mutating func produce<Sink: HTTPSink & ~Copyable>(into sink: inout Sink, atMost limit: Int) -> Int {
        withUnsafeMutablePointer(to: &sink) { sink in
            withUnsafePointer(to: SinkPort(sink)) { connection.pump($0, atMost: limit) }
        }
    }

    // MARK: Input

    /// Takes the bytes of one read. They are accessed until `next` has returned nil.
    ///
    /// - Parameter now: monotonic time in nanoseconds.
    public mutating func feed(_ bytes: UnsafeRawBufferPointer, now: UInt64) { connection.feed(bytes, now: now) }

    /// The next event; nil once all input has been handled.
    public mutating func next() -> HTTPEvent? { connection.next() }

    /// Whether events caused by `produce` or by the owner's calls are waiting.
    public var hasEvents: Bool { !connection.events.isEmpty }

    /// Acknowledges `count` bytes of a response's body, which reopens the peer's windows (RFC 9113, 6.9). Bytes not
    /// consumed when a stream ends are returned to the connection's window automatically.
    public mutating func consume(_ stream: UInt32, _ count: Int) { connection.consume(stream, count) }

    /// When to call `expire`, in nanoseconds; nil if it is not needed.
    public var deadline: UInt64? { connection.deadline }

    /// Lets streams that wait because of the peer's tiny window write anyway; call `produce` afterwards.
    public mutating func expire(now: UInt64) { connection.expire(now: now) }

    // MARK: State

    /// Whether `produce` may have something to write.
    public var wantsOutput: Bool { connection.wantsOutput }

    /// Whether the peer's SETTINGS have arrived, which shows that the peer does speak HTTP/2.
    public var isOpened: Bool { connection.isOpened }

    /// At most `HTTP2Limits.maxStreams`.
    public var openStreams: Int { connection.streams.count }

    /// Concurrent streams that the peer allows, by its SETTINGS_MAX_CONCURRENT_STREAMS. Further requests wait.
    public var peerStreamLimit: Int { connection.peerStreamLimit }

    /// Whether no stream ids are left. If so, replace the connection (RFC 9113, 5.1.1).
    public var isExhausted: Bool { connection.isExhausted }

    /// Frames other than DATA waiting for `produce`.
    public var queuedFrames: Int { connection.queuedFrames }

    /// Bytes of memory held here, without nghttp2's own.
    public var bufferedBytes: Int { connection.bufferedBytes }

    /// What the peer did, and what was refused.
    public var counters: HTTP2Counters { connection.flood.counters }
}
