// ServerSession: the server side of one HTTP/2 connection (RFC 9113), without I/O. Bytes go in, events come out, and
// output is written to the owner's sink. Nghttp2 does framing, compression and protocol checks.
//
//     bytes ─ feed ─> Connection ─ next ─> events            (Connection.swift, Connection+Callbacks.swift)
//     respond, finish, consume, … ─> Connection ─ produce ─> sink        (Connection+Output.swift)

import Bytes

/// The server side of one connection. No input can make it trap or exceed its memory limits.
///
/// Call `feed`, then `next` until it returns nil, then `produce`; while `hasEvents`, call `next` again. Streams are
/// identified by HTTP/2's ids; calls for a stream that is no longer open are ignored.
public struct ServerSession: ~Copyable {
    @usableFromInline let connection: Connection

    public init(limits: HTTP2Limits = HTTP2Limits()) {
        connection = Connection(.server, limits: limits)
    }

    // MARK: Input

    /// Takes the bytes of one read. They are accessed until `next` has returned nil or `hold` is called.
    ///
    /// - Parameter now: monotonic time in nanoseconds.
    public mutating func feed(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        connection.feed(bytes, now: now)
    }

    /// The next event; nil once all input has been handled.
    public mutating func next() -> HTTPEvent? { connection.next() }

    /// Pauses. Unhandled bytes are copied, and `next` returns their events later; the caller's bytes are no longer
    /// accessed. Do not call `feed` until `next` has returned nil again, or the copy grows without bound.
    public mutating func hold() { connection.hold() }

    /// Whether events caused by `produce` or by the owner's calls are waiting.
    public var hasEvents: Bool { !connection.events.isEmpty }

    /// When to call `expire`, in nanoseconds; nil if it is not needed.
    public var deadline: UInt64? { connection.deadline }

    /// Lets streams that wait because of the peer's tiny window write anyway; call `produce` afterwards.
    public mutating func expire(now: UInt64) { connection.expire(now: now) }

    // MARK: Streams

    /// Sets the owner's index for a stream, which the stream's events carry from then on. Until then the index is
    /// `UInt32.max`.
    public mutating func setHandle(_ handle: UInt32, stream: UInt32) {
        if let index = connection.streams.find(stream) { connection.streams[index].handle = handle }
    }

    /// The owner's index for a stream; nil if the stream is not open or has none.
    public func handle(of stream: UInt32) -> UInt32? {
        guard let index = connection.streams.find(stream) else { return nil }
        let handle = connection.streams[index].handle
        return handle == HTTPStream.noHandle ? nil : handle
    }

    /// Whether the peer's half of a stream has ended: its `complete` has been returned, or follows the latest `data`
    /// next.
    public func hasEnded(_ stream: UInt32) -> Bool {
        guard let index = connection.streams.find(stream) else { return true }
        return connection.streams[index].remoteDone
    }

    /// Acknowledges `count` bytes of a stream's body, which reopens the peer's windows (RFC 9113, 6.9). Bytes not
    /// consumed when a stream ends are returned to the connection's window automatically.
    public mutating func consume(_ stream: UInt32, _ count: Int) { connection.consume(stream, count) }

    // MARK: Output

    /// Answers a request, once. `complete`: the response has no body; otherwise call `bodyAvailable` and `finish`.
    ///
    /// - Parameter status: 200 to 599 (RFC 9110, 15).
    public mutating func respond(_ stream: UInt32, status: Int, fields: HTTPFields, complete: Bool) {
        connection.respond(stream, status: status, fields: fields, complete: complete)
    }

    /// Sends an informational response before the response: 100 to ask for a body that the peer announced with `expect`
    /// (RFC 9110, 10.1.1).
    public mutating func inform(_ stream: UInt32, status: Int) { connection.inform(stream, status: status) }

    /// Reports that the owner has bytes of the stream's body; the sink will be asked for them.
    public mutating func bodyAvailable(_ stream: UInt32) { connection.bodyAvailable(stream) }

    /// Ends the response after the queued bytes of its body. The rest of the request's body is discarded.
    ///
    /// - Parameter trailers: nil if there are none.
    public mutating func finish(_ stream: UInt32, trailers: HTTPFields? = nil) {
        connection.finish(stream, trailers: trailers)
    }

    /// Ends a stream at once and removes it: it has no further events.
    public mutating func reset(_ stream: UInt32, _ code: HTTP2Code) { connection.reset(stream, code) }

    /// How many bytes the peer's windows currently allow on a stream. If it is 0, `writable` reports the change.
    public mutating func room(_ stream: UInt32) -> Int { connection.room(stream) }

    /// Like `room`, but without a `writable` event when the room changes from 0.
    public func window(_ stream: UInt32) -> Int { connection.window(stream) }

    /// Requests a `writable` event when the peer's windows grow on a stream, even if they allow something already.
    public mutating func awaitRoom(_ stream: UInt32) { connection.awaitRoom(stream) }

    /// Sends a PING; the peer's answer is a `pong` event.
    public mutating func ping(_ number: UInt64) { connection.ping(number) }

    /// Asks the peer to open no more streams. Streams that it has already opened are still served; `goAway` follows a
    /// round trip later (RFC 9113, 6.8).
    public mutating func shutdownNotice() { connection.shutdownNotice() }

    /// Ends the connection. With `noError`, open streams continue to their end and no others are accepted. With any
    /// other code, all streams are removed and a `fatal` event follows.
    public mutating func goAway(_ code: HTTP2Code, _ message: String) { connection.goAway(code, message) }

    /// Writes to `sink` until about `limit` bytes are written – the last frame may exceed it, DATA by at most
    /// `HTTP2Limits.minDataFrame` – or there is nothing to write for now. Streams take turns frame by frame.
    ///
    /// - Returns: the number of bytes written, including headers and contents of DATA frames.
    @inlinable
    @discardableResult
    public mutating func produce<Sink: HTTPSink & ~Copyable>(into sink: inout Sink, atMost limit: Int) -> Int {
        withUnsafeMutablePointer(to: &sink) { sink in
            withUnsafePointer(to: SinkPort(sink)) { connection.pump($0, atMost: limit) }
        }
    }

    // MARK: State

    /// Whether `produce` may have something to write.
    public var wantsOutput: Bool { connection.wantsOutput }

    /// Whether no more events or output will come. If so, close once the output has been sent.
    public var isFinished: Bool { connection.isFinished }

    /// Whether the peer's preface and SETTINGS have arrived.
    public var isOpened: Bool { connection.isOpened }

    /// Whether a frame or a header section has begun but not ended, or `hold` kept something. If this lasts long, it
    /// may be a slow attack; the owner has the clock to detect that.
    public var hasPartialFrame: Bool { connection.hasPartialFrame }

    public var openStreams: Int { connection.streams.count }

    /// Frames other than DATA waiting for `produce`.
    public var queuedFrames: Int { connection.queuedFrames }

    /// Bytes of memory held here, without nghttp2's own.
    public var bufferedBytes: Int { connection.bufferedBytes }

    public var counters: HTTP2Counters { connection.flood.counters }
}
