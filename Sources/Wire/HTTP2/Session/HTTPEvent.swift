// What a session tells its owner, and what it asks of the owner when it writes.

/// One thing that came from the peer. Pointers are valid until the next call of `next`, `feed` or `hold`.
///
/// A ServerSession tells `request`, a ClientSession `response` and `closing`; all else is told by both.
///
/// Every stream that was told by `request`, or opened by a client, ends in exactly one of `closed` and `reset`, unless
/// the owner itself called `reset`, or the connection ended first. After either nothing more is told of it.
public enum HTTPEvent {
    /// A request. `complete`: it has no body.
    case request(stream: UInt32, head: RequestHead, complete: Bool)
    /// The head of the response to a request; informational ones are not told. `complete`: it has no body, and nothing
    /// else comes but `closed`.
    case response(stream: UInt32, handle: UInt32, head: ResponseHead, complete: Bool)
    /// Bytes of the peer's body, at least one. They count against the peer's windows until `consume`.
    case data(stream: UInt32, handle: UInt32, bytes: UnsafeRawBufferPointer)
    /// The peer's body has ended, and with it the peer's half of the stream.
    case complete(stream: UInt32, handle: UInt32, trailers: HTTPFieldsView?)
    /// The stream ended before its response did: by the peer's RST_STREAM with this code, or by an error of the peer's
    /// that was answered with RST_STREAM; for a client also when the peer takes no more streams. It is forgotten.
    case reset(stream: UInt32, handle: UInt32, code: HTTP2Code)
    /// The response was written, or for a client read, to its end, and the request with it. The stream is forgotten.
    case closed(stream: UInt32, handle: UInt32)
    /// The peer made room on a stream that had none for what the owner has: `produce` will ask for its body.
    case writable(stream: UInt32, handle: UInt32)
    /// The peer will end the connection, for this reason: it takes no more requests, and those it has go on.
    case closing(String)
    /// Reading has taken so many units of work, of about a microsecond each, that no other event accounts for: header
    /// sections, by what they expand to, and frames that tell nothing. The owner may call `hold` and serve others.
    case worked(units: Int)
    /// The peer answered `ping`.
    case pong(UInt64)
    /// The peer broke a rule or a limit. Call `produce` until it has nothing more, write that, and close; all streams
    /// are forgotten, and nothing more comes.
    case fatal(HTTP2Error)
    /// The peer ended the connection by a GOAWAY with an error. All streams are forgotten, and nothing more comes.
    case closedByPeer(HTTP2Error)
}

/// Where a session's output goes. A session's methods must not be called from within.
public protocol HTTPSink: ~Copyable {
    /// Appends a copy of `bytes` to the connection's output.
    mutating func write(_ bytes: UnsafeRawBufferPointer)

    /// Says how many bytes of a stream's body can go now, at most `atMost` of them, which is at least 1. It takes
    /// nothing: the bytes go with `data`, if that is called.
    ///
    /// - Returns: `drained`: nothing more of the stream is queued behind these `count` bytes. After `finish` that is
    ///   the end of the stream, before it the stream is asked again after the next `bodyAvailable`.
    mutating func body(stream: UInt32, handle: UInt32, atMost: Int) -> (count: Int, drained: Bool)

    /// Appends `head` (9 bytes, a DATA frame's header) and then the next `count` bytes of the stream's body to the
    /// output. `count` is what `body` said just before, and at least 1.
    mutating func data(stream: UInt32, handle: UInt32, head: UnsafeRawBufferPointer, count: Int)
}
